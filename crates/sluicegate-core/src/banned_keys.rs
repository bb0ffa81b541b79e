//! A page of the keys that are banned.

use crate::banned_key::BannedKey;
use crate::cursor::Cursor;
use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::page::Page;

/// A page of the keys that a limit bans, in no particular order. It may have fewer than were asked for, or
/// none, although there are more: a store looks at so many keys at a time, and only where there is no
/// [next](BannedKeys::next) page was that the last. On a server it may have a few more than were asked for,
/// since what a step of its scan finds is told as a whole.
///
/// Who is banned from the first page to the last is on one of them, and on a server whose table grows or
/// shrinks meanwhile maybe on two.
///
/// ```
/// use sluicegate_core::{BannedKey, BannedKeys, ListedKey, Span};
///
/// let banned = BannedKey::new(ListedKey::of(b"mallory"), Span::MINUTE);
/// let page = BannedKeys::new(vec![banned.clone()], None);
/// assert_eq!((page.keys(), page.next()), (&[banned][..], None));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BannedKeys {
    keys: Vec<BannedKey>,
    next: Option<Cursor>,
}

impl BannedKeys {
    /// A page. For stores.
    #[must_use]
    pub const fn new(keys: Vec<BannedKey>, next: Option<Cursor>) -> Self {
        Self { keys, next }
    }

    /// Checks whether a limit has such a list, and this page of it. For stores.
    ///
    /// # Errors
    /// [`RequestErrorKind::Unsupported`] for a limit that bans nobody, and for several limits that are
    /// decided together; `Invalid` for a time that lacks, or is too many.
    pub fn validate(limit: &Limit, page: &Page<'_>, is_injected: bool) -> Result<(), RequestError> {
        page.validate(limit, is_injected)?;
        if limit.has_bans() {
            return Ok(());
        }
        let message = format!(
            "limit `{}` bans nobody, so that no key is listed: only a limit with a `ban` has such a list",
            limit.name()
        );
        Err(RequestError::new(RequestErrorKind::Unsupported, message))
    }

    /// The error of a store that has no such list. For stores.
    #[cold]
    #[must_use]
    pub fn unsupported(limit: &Limit) -> RequestError {
        let message = format!(
            "limit `{}` is in a store that doesn't list which keys are banned",
            limit.name()
        );
        RequestError::new(RequestErrorKind::Unsupported, message)
    }

    /// Those on this page.
    #[must_use]
    pub fn keys(&self) -> &[BannedKey] {
        &self.keys
    }

    /// Where the next page begins; `None` if this was the last.
    #[must_use]
    pub const fn next(&self) -> Option<&Cursor> {
        self.next.as_ref()
    }
}
