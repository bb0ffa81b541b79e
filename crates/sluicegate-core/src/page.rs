//! The page of a list to request.

use crate::cursor::Cursor;
use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::request::{Operation, Request};
use crate::time::Timestamp;

/// The page of a list to request: its start, and its maximum number of entries.
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
    /// The default maximum number of entries of a page.
    pub const USUAL: usize = 100;
    /// The largest maximum number of entries of a page.
    pub const MOST: usize = 1_000;

    /// Requests the first page, with at most 100 entries.
    #[must_use]
    pub const fn first() -> Self {
        Self { count: Self::USUAL, after: None, time: None }
    }

    /// Requests the first page, with at most `count` entries: 1 to 1,000.
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Invalid`] for any other number.
    pub fn of(count: u64) -> Result<Self, RequestError> {
        let fits = usize::try_from(count).ok().filter(|count| (1..=Self::MOST).contains(count));
        let count = fits.ok_or_else(|| {
            let message = format!(
                "a page can't have {count} entries: write a number from 1 to {}",
                Self::MOST
            );
            RequestError::new(RequestErrorKind::Invalid, message)
        })?;
        Ok(Self { count, ..Self::first() })
    }

    /// Starts the page at the cursor, where another page ended.
    #[must_use]
    pub const fn after(mut self, cursor: &'a Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Sets the time at which the list is evaluated, for limits with injected time.
    #[must_use]
    pub fn at(mut self, time: impl Into<Option<Timestamp>>) -> Self {
        self.time = time.into();
        self
    }

    /// Returns the maximum number of entries.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the start of the page; `None` for the first page.
    #[must_use]
    pub const fn cursor(&self) -> Option<&'a Cursor> {
        self.after
    }

    /// Returns the time at which the list is evaluated, unless it is the store's.
    #[must_use]
    pub const fn time(&self) -> Option<Timestamp> {
        self.time
    }

    /// Checks the rules that all lists of a limit share.
    pub(crate) fn validate(&self, limit: &Limit, is_injected: bool) -> Result<(), RequestError> {
        if limit.parts().len() != 1 {
            let message = format!(
                "`{}` are {} limits that are decided together: list each of them separately",
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
