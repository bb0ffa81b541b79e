//! Template constants of the Lua files.

use std::fmt;

use sluicegate_core::kernel::{FIXED_KINDS, FixedKind, HEAD_BYTES};

use crate::format::{Format, Item, write_items};

/// The value of a template constant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constant {
    /// A whole number.
    Whole(i64),
    /// A format of `struct`.
    Format(Format),
    /// A length in four bytes, as a text.
    Length(usize),
    /// The format of an entry with a fixed number of numbers.
    Entry(FixedKind),
    /// A table from the kinds of fixed length to the sizes of their entries in bytes.
    FixedSizes,
}

/// Template constants with their values.
pub(crate) type Words = &'static [(&'static str, Constant)];

pub(crate) const fn whole(number: u64) -> Constant {
    assert!(number <= 1 << 55, "a double has to hold it");
    #[expect(clippy::cast_possible_wrap, reason = "far below")]
    Constant::Whole(number as i64)
}

pub(crate) const fn size(bytes: usize) -> Constant {
    whole(bytes as u64)
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Format(format) => write!(f, "'{format}'"),
            Self::Length(length) => {
                let bytes = length.to_be_bytes();
                f.write_str("'")?;
                bytes[bytes.len() - 4..].iter().try_for_each(|byte| write!(f, "\\{byte}"))?;
                f.write_str("'")
            }
            Self::Entry(kind) => {
                f.write_str("'")?;
                write_items(f, &[Item::Whole(HEAD_BYTES), Item::Numbers(kind.numbers)])?;
                f.write_str("'")
            }
            Self::FixedSizes => {
                f.write_str("{")?;
                for known in FIXED_KINDS {
                    write!(f, " [{}] = {},", known.kind, known.bytes())?;
                }
                f.write_str(" }")
            }
        }
    }
}
