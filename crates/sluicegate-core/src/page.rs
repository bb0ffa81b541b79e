//! A page of a list that is asked for.

use crate::cursor::Cursor;
use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::request::{Operation, Request};
use crate::time::Timestamp;

/// Which page of a list is asked for: where it begins, and how many entries it has at most.
///
/// ```
/// use sluicegate_core::{Cursor, Page};
///
/// assert_eq!(Page::first().count(), 100);
/// let cursor: Cursor = "0a.42".parse()?;
/// let page = Page::of(1_000)?.after(&cursor);
/// assert_eq!((page.count(), page.cursor()), (1_000, Some(&cursor)));
/// assert!(Page::of(0).is_err() && Page::of(1_001).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Page<'a> {
    count: usize,
    after: Option<&'a Cursor>,
    time: Option<Timestamp>,
}

impl<'a> Page<'a> {
    /// How many entries a page has at most, unless told.
    pub const USUAL: usize = 100;
    /// The most that it may have.
    pub const MOST: usize = 1_000;

    /// The first page, of 100 entries at most.
    #[must_use]
    pub const fn first() -> Self {
        Self { count: Self::USUAL, after: None, time: None }
    }

    /// The first page, of so many entries at most: 1 to 1,000.
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`] for any other number.
    pub fn of(count: u64) -> Result<Self, RequestError> {
        let fits = usize::try_from(count).ok().filter(|count| (1..=Self::MOST).contains(count));
        let count = fits.ok_or_else(|| {
            let message = format!(
                "a page of {count} is asked for, but it has from 1 to {} entries",
                Self::MOST
            );
            RequestError::new(RequestErrorKind::Invalid, message)
        })?;
        Ok(Self { count, ..Self::first() })
    }

    /// The page that begins where another one ended.
    #[must_use]
    pub const fn after(mut self, cursor: &'a Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// The list as of a time, for limits that are judged by injected time.
    #[must_use]
    pub fn at(mut self, time: impl Into<Option<Timestamp>>) -> Self {
        self.time = time.into();
        self
    }

    /// How many entries it has at most.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Where it begins; `None` for the first page.
    #[must_use]
    pub const fn cursor(&self) -> Option<&'a Cursor> {
        self.after
    }

    /// The time as of which it is asked, if that isn't the store's.
    #[must_use]
    pub const fn time(&self) -> Option<Timestamp> {
        self.time
    }

    /// Checks what all lists of a limit have in common.
    pub(crate) fn validate(&self, limit: &Limit, is_injected: bool) -> Result<(), RequestError> {
        if limit.parts().len() != 1 {
            let message = format!(
                "`{}` are {} limits that are decided together: list each by itself",
                limit.name(),
                limit.parts().len()
            );
            return Err(RequestError::new(RequestErrorKind::Unsupported, message));
        }
        Request::new(Operation::Peek, b"").at(self.time).validate_time(limit, is_injected)
    }
}

impl Default for Page<'_> {
    fn default() -> Self {
        Self::first()
    }
}
