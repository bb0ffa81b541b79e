//! How a kernel's states are stored.

/// The size of a number in a stored state, in bytes: a whole number below 2^53, big-endian.
pub const NUMBER_BYTES: usize = 7;
/// The bytes of a kind and an identity, by which an entry is found.
pub const ID_BYTES: usize = 5;
/// The bytes with which every entry begins: kind, identity, retention.
pub const HEAD_BYTES: usize = ID_BYTES + 1;
/// Entries of this kind and those above it say how long they are, in two bytes after their head.
pub const LISTED_FROM: u8 = 0x80;
/// Entries of this kind and those above it say it in four bytes.
pub const WHOLE_FROM: u8 = 0xc0;

/// How a kernel's states are stored. A kind is one byte and means one layout for good: a new layout
/// gets a new kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layout {
    /// A fixed number of numbers, in one value with the states of the other policies.
    Fixed {
        /// Below 0x80.
        kind: u8,
        /// How many numbers there are.
        numbers: usize,
    },
    /// Any number of numbers, in one value with the states of the other policies.
    Listed {
        /// From 0x80 to 0xbf.
        kind: u8,
    },
    /// Possibly many entries. A store that can change part of a value keeps them under a separate
    /// key, and a head of fixed length in one value with the states of the other policies. Other
    /// stores keep all of the numbers there.
    Apart {
        /// The kind of the head, below 0x80.
        head: u8,
        /// The kind of the whole, from 0xc0 up.
        whole: u8,
    },
}

impl Layout {
    /// The kind of entry that a store with one value per subject writes.
    #[must_use]
    pub const fn kind(self) -> u8 {
        match self {
            Self::Fixed { kind, .. } | Self::Listed { kind } => kind,
            Self::Apart { whole, .. } => whole,
        }
    }
}
