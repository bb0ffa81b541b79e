//! The position at which a list continues.

use std::fmt;
use std::str::FromStr;

use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::HoldId;
use crate::limit::Limit;
use crate::listed_key::{byte_of, hexadecimal};
use crate::number::MAX_EXACT;

/// The position at which the next page of a list begins.
///
/// A cursor is text from a store, and only stores of that kind can read it. It has 1 to 255 of the
/// characters `a`–`z`, `A`–`Z`, `0`–`9`, `.`, `_` and `-`. It isn't secret and never expires: the
/// page has the entries that follow it at the time of the request.
///
/// ```
/// use sluicegate_core::Cursor;
///
/// assert_eq!("0a.42".parse::<Cursor>()?.as_str(), "0a.42");
/// assert!("0a 42".parse::<Cursor>().is_err());
/// # Ok::<(), sluicegate_core::CursorError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Cursor(Box<str>);

/// The error for text that isn't a valid cursor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CursorError(String);

impl Cursor {
    /// The maximum length of a cursor, in characters.
    pub const MAX_LEN: usize = 255;

    /// Returns the cursor as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Creates the cursor after a holder, for a list ordered by end and id. For stores.
    ///
    /// ```
    /// use sluicegate_core::{Cursor, HoldId, Limit};
    ///
    /// let limit = Limit::new("jobs", vec!["concurrency 9 hold 30s"])?;
    /// let place = (1_790_000_000_000_000, HoldId::from_bytes([7; 16]));
    /// assert_eq!(Cursor::after_holder(place).holder(&limit)?, place);
    /// assert!("0a.42".parse::<Cursor>()?.holder(&limit).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn after_holder((until, id): (u64, HoldId)) -> Self {
        Self(format!("{until:014x}{id}").into())
    }

    /// Returns the end of the holder before the cursor, in µs since the epoch, and its id. For
    /// stores.
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Invalid`] for any other cursor.
    pub fn holder(&self, limit: &Limit) -> Result<(u64, HoldId), RequestError> {
        let place = || {
            let (until, id) = self.0.split_at_checked(UNTIL_DIGITS)?;
            let until = u64::from_str_radix(until, 16).ok().filter(|until| *until <= MAX_EXACT)?;
            Some((until, id.parse().ok()?))
        };
        // A number can be written in two ways; only one is canonical.
        let place = place().filter(|place| Self::after_holder(*place) == *self);
        place.ok_or_else(|| self.foreign(limit))
    }

    /// Creates the cursor at one of a store's places, after an entry there: at most 100 bytes. For
    /// stores.
    ///
    /// ```
    /// use sluicegate_core::{Cursor, Limit};
    ///
    /// let limit = Limit::new("login", vec!["gcra 1/s"])?;
    /// let cursor = Cursor::at_place(42, b"mallory");
    /// assert_eq!(cursor.place(&limit)?, (42, b"mallory".to_vec()));
    /// assert!("42".parse::<Cursor>()?.place(&limit).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn at_place(place: u64, after: &[u8]) -> Self {
        let mut text = format!("{place:x}.");
        after.iter().for_each(|byte| text.extend(hexadecimal(*byte).map(char::from)));
        Self(text.into())
    }

    /// Returns the place of the cursor and the entry that it follows there. For stores.
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Invalid`] for any other cursor.
    pub fn place(&self, limit: &Limit) -> Result<(u64, Vec<u8>), RequestError> {
        let read = || {
            let (place, digits) = self.0.split_once('.')?;
            let place = u64::from_str_radix(place, 16).ok()?;
            let after: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte_of).collect();
            Some((place, after?))
        };
        let place = read().filter(|(place, after)| Self::at_place(*place, after) == *self);
        place.ok_or_else(|| self.foreign(limit))
    }

    /// Returns the error for a cursor that no list of this limit returned. For stores.
    #[cold]
    #[must_use]
    pub fn foreign(&self, limit: &Limit) -> RequestError {
        let message = format!(
            "`{}` is not a cursor of limit `{}`: use the cursor of the previous page, or omit it to start again",
            self.0,
            limit.name()
        );
        RequestError::new(RequestErrorKind::Invalid, message)
    }
}

/// The number of digits of the largest time.
const UNTIL_DIGITS: usize = 14;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(is_valid) {
            return Err(CursorError(text.chars().take(64).collect()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a cursor: use that of the previous page, which has 1 to {} letters, digits, `.`, `_` or `-`",
            self.0.escape_debug(),
            Cursor::MAX_LEN
        )
    }
}

impl std::error::Error for CursorError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit() -> Limit {
        Limit::new("jobs", ["concurrency 9 hold 30s"]).unwrap()
    }

    proptest! {
        #[test]
        fn a_place_reads_back_from_its_cursor(until in 0..=MAX_EXACT, id in any::<[u8; 16]>()) {
            let place = (until, HoldId::from_bytes(id));
            let text = Cursor::after_holder(place).to_string();
            prop_assert_eq!(text.parse::<Cursor>().unwrap().holder(&limit()).unwrap(), place);
        }

        #[test]
        fn a_place_of_a_store_reads_back_too(
            place in any::<u64>(),
            after in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let text = Cursor::at_place(place, &after).to_string();
            prop_assert_eq!(text.parse::<Cursor>().unwrap().place(&limit()).unwrap(), (place, after));
        }

        #[test]
        fn any_text_is_a_place_or_an_error(text in "[0-9a-fA-F+.-]{44,48}|[0-9a-f]{0,18}[.][0-9a-f]{0,6}|.{0,60}|\\PC{250,260}") {
            if let Ok(cursor) = text.parse::<Cursor>() {
                prop_assert_eq!(cursor.as_str(), &text);
                if let Ok((place, after)) = cursor.place(&limit()) {
                    prop_assert_eq!(Cursor::at_place(place, &after), cursor.clone());
                }
                if let Ok(place) = cursor.holder(&limit()) {
                    prop_assert_eq!(Cursor::after_holder(place), cursor);
                }
            }
        }
    }
}
