//! A key that is banned.

use crate::listed_key::ListedKey;
use crate::time::Span;

/// A banned key, and the time until its ban ends.
///
/// ```
/// use sluicegate_core::{BannedKey, ListedKey, Span};
///
/// let banned = BannedKey::new(ListedKey::of(b"mallory"), Span::MINUTE);
/// assert!(banned.key().is(b"mallory"));
/// assert_eq!(banned.ends_in(), Span::MINUTE);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BannedKey {
    key: ListedKey,
    ends_in: Span,
}

impl BannedKey {
    /// Creates a banned key. For stores.
    #[must_use]
    pub const fn new(key: ListedKey, ends_in: Span) -> Self {
        Self { key, ends_in }
    }

    /// Returns the key, to the extent that the store knows it.
    #[must_use]
    pub const fn key(&self) -> &ListedKey {
        &self.key
    }

    /// Returns the time until the ban ends, unless it is lifted earlier.
    #[must_use]
    pub const fn ends_in(&self) -> Span {
        self.ends_in
    }
}
