//! Errors in key expressions.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use sluicegate_core::printable;

use super::KeyExpression;

/// A key expression failed to parse.
///
/// Prints what is wrong and what to write instead, and below it the expression with carets under
/// the part at fault. Control characters print as escapes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyExpressionError {
    message: String,
    column: usize,
    snippet: String,
}

impl KeyExpressionError {
    /// Returns an error in the bytes `place` of `text`.
    pub(super) fn new(text: &str, place: Range<usize>, message: &str) -> Self {
        let before = text.get(..place.start).unwrap_or_default();
        Self {
            message: printable(message),
            column: before.chars().count() + 1,
            snippet: snippet(text, before, text.get(place).unwrap_or_default()),
        }
    }

    /// Returns the problem and what to write instead, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the column where the part at fault begins, in characters from 1.
    #[must_use]
    pub const fn column(&self) -> usize {
        self.column
    }

    /// Returns the expression, and on a second line carets under the part at fault, without a final
    /// line break.
    #[must_use]
    pub fn snippet(&self) -> &str {
        &self.snippet
    }
}

impl fmt::Display for KeyExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.snippet.lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl Error for KeyExpressionError {}

/// The number of characters shown of an expression that is too long.
const SHOWN_CHARS: usize = 60;

fn snippet(text: &str, before: &str, fault: &str) -> String {
    if text.len() > KeyExpression::MAX_BYTES {
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        let shown = printable(&shown);
        return format!("{shown}…\n{}^", " ".repeat(shown.chars().count()));
    }
    let width = |text: &str| printable(text).chars().count();
    format!("{}\n{}{}", printable(text), " ".repeat(width(before)), "^".repeat(width(fault).max(1)))
}
