//! The parts of a command.

use std::ops::Range;

/// The name of a command and its arguments, as bytes of the input.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'i, 'p> {
    input: &'i [u8],
    ranges: &'p [Range<usize>],
}

impl<'i, 'p> Arguments<'i, 'p> {
    pub(crate) const fn new(input: &'i [u8], ranges: &'p [Range<usize>]) -> Self {
        Self { input, ranges }
    }

    /// Returns the number of parts, with the name. An empty line or array has none, and needs no answer.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns `true` if there is no command.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the part at an index; the name has index 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'i [u8]> {
        self.input.get(self.ranges.get(index)?.clone())
    }

    /// Returns all parts from an index on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = &'i [u8]> + use<'i, 'p> {
        let (input, ranges) = (self.input, self.ranges.get(index..).unwrap_or_default());
        ranges.iter().filter_map(move |range| input.get(range.clone()))
    }
}
