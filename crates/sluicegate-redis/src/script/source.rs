//! A script as it is made: its text, and where each of its lines is from.

use std::fmt;

/// A line of a file, from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) file: &'static str,
    pub(super) line: usize,
}

/// A text of lines that are from several files.
#[derive(Debug, Default)]
pub(super) struct Source {
    text: String,
    /// Where each line begins.
    places: Vec<Place>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line } = self;
        write!(f, "{file}.lua:{line}")
    }
}

impl Source {
    /// A text that is from no file.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), places: Vec::new() }
    }

    /// Appends a text that begins at a place.
    pub(super) fn push(&mut self, text: &str, mut place: Place) {
        for line in text.split_inclusive('\n') {
            if self.text.is_empty() || self.text.ends_with('\n') {
                self.places.push(place);
            }
            self.text.push_str(line);
            place.line += 1;
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns where a line of the text is from.
    pub(super) fn place(&self, line: usize) -> Option<Place> {
        self.places.get(line.checked_sub(1)?).copied()
    }
}
