//! A key that is banned.

use std::time::Duration;

use crate::listed_key::ListedKey;

/// A banned key, the time until its ban ends, and the time since it began.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::{BannedKey, ListedKey};
///
/// let minute = Duration::from_secs(60);
/// let banned = BannedKey::new(ListedKey::of(b"mallory"), minute, 2 * minute);
/// assert!(banned.key().is(b"mallory"));
/// assert_eq!((banned.ends_in(), banned.age()), (minute, 2 * minute));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BannedKey {
    key: ListedKey,
    ends_in: Duration,
    age: Duration,
}

impl BannedKey {
    /// Creates a banned key. For stores.
    #[must_use]
    pub const fn new(key: ListedKey, ends_in: Duration, age: Duration) -> Self {
        Self { key, ends_in, age }
    }

    /// Returns the key, to the extent that the store knows it.
    #[must_use]
    pub const fn key(&self) -> &ListedKey {
        &self.key
    }

    /// Returns the time until the ban ends, unless it is lifted earlier.
    #[must_use]
    pub const fn ends_in(&self) -> Duration {
        self.ends_in
    }

    /// Returns the time since the ban began, or since a manual ban renewed it.
    #[must_use]
    pub const fn age(&self) -> Duration {
        self.age
    }
}
