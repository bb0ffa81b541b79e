//! Positions in a file.

/// A line and a column, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

/// The first position of a value, and its width in its first line.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Span {
    pub(crate) start: Position,
    /// The number of characters; 0 for a value that isn't written.
    pub(crate) width: usize,
}

impl Span {
    /// Makes a span of one character.
    pub(crate) const fn at(line: u64, column: u64) -> Self {
        Self { start: Position { line, column }, width: 1 }
    }
}
