//! The key of an [`Ask`](super::Ask) that was made from a request.

#[cfg(feature = "config")]
use std::sync::LazyLock;

#[cfg(feature = "config")]
use sluicegate_http::Key;

/// The key with its network, if it was made from a request. Without the registry, no key is.
#[cfg(feature = "config")]
pub(crate) type Made<'a> = Option<&'a Key>;
#[cfg(not(feature = "config"))]
pub(crate) type Made<'a> = std::marker::PhantomData<&'a ()>;

/// Returns a key that no caller gave, so that none is expected even if a cost is set later.
pub(super) fn no_key() -> Made<'static> {
    #[cfg(feature = "config")]
    {
        static NO_KEY: LazyLock<Key> = LazyLock::new(|| Key::new(""));
        Some(&NO_KEY)
    }
    #[cfg(not(feature = "config"))]
    Made::default()
}
