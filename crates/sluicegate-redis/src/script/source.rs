//! A script in the making: its text, and the origin of each line.

use std::fmt;

/// A line of a file, from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) file: &'static str,
    pub(super) line: usize,
}

/// A text of lines from several files.
#[derive(Debug, Default)]
pub(super) struct Source {
    text: String,
    /// The origin of each line.
    places: Vec<Place>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line } = self;
        write!(f, "{file}.lua:{line}")
    }
}

impl Source {
    /// Returns a text without an origin.
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), places: Vec::new() }
    }

    /// Appends a text that starts at a place.
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

    /// Returns the origin of a line of the text.
    pub(super) fn place(&self, line: usize) -> Option<Place> {
        self.places.get(line.checked_sub(1)?).copied()
    }
}
