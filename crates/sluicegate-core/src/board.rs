//! Boards: small entries about a key that processes show to each other through their store.

use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::time::Span;

/// An entry that a process puts on the board of a key.
///
/// It replaces the entry of the same name. It disappears after its lifetime, by the clock of the
/// store, unless it was put again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Post<'a> {
    /// The name of the process, 1 to [`Post::MAX_NAME`] bytes.
    pub name: &'a [u8],
    /// The content, at most [`Post::MAX_VALUE`] bytes.
    pub value: &'a [u8],
    /// The lifetime, 1 ms to 1 h.
    pub lasts: Span,
}

/// An entry on a board.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Posted {
    /// The name of the process.
    pub name: Vec<u8>,
    /// The content.
    pub value: Vec<u8>,
}

impl Post<'_> {
    /// The maximum length of a name, in bytes.
    pub const MAX_NAME: usize = 128;
    /// The maximum length of a content, in bytes.
    pub const MAX_VALUE: usize = 16_384;
    /// The maximum number of entries on a board. Further names are not added.
    pub const MOST: usize = 1_000;

    /// Checks the entry.
    ///
    /// # Errors
    /// Returns an error for a name, a content or a lifetime out of range.
    pub fn validate(&self, limit: &Limit) -> Result<(), RequestError> {
        let (name, value, lasts) = (self.name.len(), self.value.len(), self.lasts);
        let is_valid = (1..=Self::MAX_NAME).contains(&name)
            && value <= Self::MAX_VALUE
            && (Span::MILLISECOND..=Span::HOUR).contains(&lasts);
        if is_valid {
            return Ok(());
        }
        let message = format!(
            "limit `{}` can't show {value} bytes as {name} bytes for {lasts}: use at most {}, 1 to {}, and \
             1ms to 1h",
            limit.name(),
            Self::MAX_VALUE,
            Self::MAX_NAME,
        );
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    /// Returns the error of a store without boards.
    pub(crate) fn unsupported(limit: &Limit) -> RequestError {
        let message = format!("limit `{}` is in a store without boards", limit.name());
        RequestError::new(RequestErrorKind::Unsupported, message)
    }
}
