//! The words of a spec with their locations, and suggestions for misspelled ones.

/// A range of characters in a spec: its start, counted from 0, and its length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Location {
    pub(crate) column: usize,
    pub(crate) width: usize,
}

/// A word of a spec and its location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) location: Location,
}

impl<'a> Word<'a> {
    /// Splits the word at the first `separator`.
    pub(crate) fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(separator)?;
        let width = before.chars().count();
        let column = self.location.column;
        Some((
            Self { text: before, location: Location { column, width } },
            Self {
                text: after,
                location: Location {
                    column: column + width + 1,
                    width: self.location.width - width - 1,
                },
            },
        ))
    }

    /// Returns the word as messages show it: shortened, because it can be as long as the spec.
    pub(crate) fn shown(self) -> String {
        const MOST: usize = 40;
        if self.location.width <= MOST {
            return self.text.to_owned();
        }
        self.text.chars().take(MOST).chain(['…']).collect()
    }
}

/// Splits `spec` into words at white space.
pub(crate) fn split(spec: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut column = 0;
    for piece in spec.split(char::is_whitespace) {
        let width = piece.chars().count();
        if width > 0 {
            words.push(Word { text: piece, location: Location { column, width } });
        }
        column += width + 1;
    }
    words
}
