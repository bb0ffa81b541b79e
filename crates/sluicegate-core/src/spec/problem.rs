//! What is wrong with a spec, and where.

use super::words::{Place, Word};

/// What is wrong with a spec, and where.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(super) place: Place,
    pub(super) message: String,
}

impl Problem {
    /// A word is at fault.
    pub(crate) fn at(word: Word<'_>, message: impl Into<String>) -> Self {
        Self { place: word.place, message: message.into() }
    }

    /// A character is at fault, counted from 0.
    pub(crate) fn at_column(column: usize, message: impl Into<String>) -> Self {
        Self { place: Place { column, width: 1 }, message: message.into() }
    }
}
