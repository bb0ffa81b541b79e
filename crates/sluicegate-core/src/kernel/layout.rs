//! How a kernel's states are stored.

/// The bytes that one number of a stored state takes: whole numbers below 2^53, big-endian.
pub const NUMBER_BYTES: usize = 7;

/// How a kernel's states are stored. A kind is one byte and stands for one layout for ever: a new
/// layout takes a new kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layout {
    /// Always as many numbers, beside the states of the other policies.
    Fixed {
        /// Below 0x80.
        kind: u8,
        /// How many numbers there are.
        numbers: usize,
    },
    /// As many numbers as it takes, beside the states of the other policies.
    Listed {
        /// From 0x80 to 0xbf.
        kind: u8,
    },
    /// Entries that may be many. A store that can change a part of a value keeps them in a key of
    /// their own and a head of fixed length beside the other policies; any other keeps all of the
    /// numbers there.
    Apart {
        /// The kind of the head, below 0x80.
        head: u8,
        /// The kind of the whole, from 0xc0 up.
        whole: u8,
    },
}

impl Layout {
    /// The kind of the entry that a store with one value per subject writes.
    #[must_use]
    pub const fn kind(self) -> u8 {
        match self {
            Self::Fixed { kind, .. } | Self::Listed { kind } => kind,
            Self::Apart { whole, .. } => whole,
        }
    }
}
