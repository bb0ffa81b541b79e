//! Problems in a spec, with their location.

use super::words::{Location, Word};

/// A problem in a spec, and its location.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(super) location: Location,
    pub(super) message: String,
}

impl Problem {
    /// Creates a problem with a word.
    pub(crate) fn at(word: Word<'_>, message: impl Into<String>) -> Self {
        Self { location: word.location, message: message.into() }
    }

    /// Creates a problem at a character, counted from 0.
    pub(crate) fn at_column(column: usize, message: impl Into<String>) -> Self {
        Self { location: Location { column, width: 1 }, message: message.into() }
    }
}
