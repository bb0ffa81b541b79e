//! Formats of bytes for the `struct` library of a server's Lua. From Rust a script gets the text of a format,
//! its size, and the positions of its items.

use std::fmt;

use sluicegate_core::kernel::NUMBER_BYTES;

/// Some of the items of a format, one after the other, big-endian.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Item {
    /// A count of whole numbers below 2^53, as in the whole stored format.
    Numbers(usize),
    /// A count of whole numbers of one byte.
    Bytes(usize),
    /// A whole number with a count of bytes. The head of an entry is one too: numbers are made and compared
    /// faster than texts.
    Whole(usize),
    /// A text with a count of bytes.
    Text(usize),
    /// A text of any length, which is only written.
    Rest,
}

/// A format, made of smaller formats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format(pub(crate) &'static [&'static [Item]]);

impl Format {
    /// Returns the size in bytes, without texts of any length.
    pub(crate) const fn size(self) -> usize {
        let (mut size, mut pieces) = (0, self.0);
        while let [piece, others @ ..] = pieces {
            let mut piece = *piece;
            while let [item, rest @ ..] = piece {
                size += match *item {
                    Item::Bytes(bytes) | Item::Whole(bytes) | Item::Text(bytes) => bytes,
                    Item::Numbers(count) => count * NUMBER_BYTES,
                    Item::Rest => 0,
                };
                piece = rest;
            }
            pieces = others;
        }
        size
    }
}

#[cfg(test)]
impl Format {
    /// Returns the number of values of `unpack`.
    pub(crate) fn values(self) -> usize {
        let values = |item: &Item| match *item {
            Item::Numbers(count) | Item::Bytes(count) => count,
            Item::Whole(_) | Item::Text(_) | Item::Rest => 1,
        };
        self.0.iter().copied().flatten().map(values).sum()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_items(f, self.0.iter().copied().flatten())
    }
}

/// Writes the text of a format.
pub(crate) fn write_items<'i>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = &'i Item>,
) -> fmt::Result {
    f.write_str(">")?;
    for item in items {
        match *item {
            Item::Whole(bytes) => write!(f, "I{bytes}")?,
            Item::Text(bytes) => write!(f, "c{bytes}")?,
            Item::Rest => f.write_str("c0")?,
            Item::Bytes(count) => f.write_str(&"B".repeat(count))?,
            Item::Numbers(count) => f.write_str(&format!("I{NUMBER_BYTES}").repeat(count))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_knows_its_text_and_its_size() {
        let format = Format(&[
            &[Item::Whole(6), Item::Text(2)],
            &[Item::Numbers(2), Item::Bytes(2), Item::Rest],
        ]);
        assert_eq!(format.to_string(), ">I6c2I7I7BBc0");
        assert_eq!(format.size(), 24);
    }
}
