//! The stored form of a kernel's states.

use super::Kernel;
use crate::for_each_kernel;

/// The size of a number in a stored state, in bytes: a whole number below 2^53, big-endian.
pub const NUMBER_BYTES: usize = 7;
/// The bytes of a kind and an identity, by which an entry is found.
pub const ID_BYTES: usize = 5;
/// The bytes at the start of every entry: kind, identity, retention.
pub const HEAD_BYTES: usize = ID_BYTES + 1;
/// The first kind whose entries store their length, in two bytes after their head.
pub const LISTED_FROM: u8 = 0x80;
/// The first kind whose entries store their length in four bytes.
pub const WHOLE_FROM: u8 = 0xc0;

/// The stored form of a kernel's states. A kind is one byte and always means the same layout; a new
/// layout gets a new kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layout {
    /// A fixed number of numbers, in one value with the states of the other policies.
    Fixed(FixedKind),
    /// Any number of numbers, in one value with the states of the other policies.
    Listed {
        /// From 0x80 to 0xbf.
        kind: u8,
    },
    /// Possibly many entries. A store that can change part of a value keeps them under a separate
    /// key. The value with the other policies' states then has a head of fixed length. Other stores
    /// keep all numbers in that value.
    Apart {
        /// The head.
        head: FixedKind,
        /// The kind of the whole, from 0xc0 up.
        whole: u8,
    },
}

/// A kind of entry with a fixed number of numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FixedKind {
    /// Below 0x80.
    pub kind: u8,
    /// The number of numbers, at least 1.
    pub numbers: usize,
}

macro_rules! fixed_kinds {
    (() $($(#[$_:meta])* $name:ident: $kernel:ty,)*) => {
        /// The kinds of fixed length of all kernels.
        pub const FIXED_KINDS: &[FixedKind] = &[$(<$kernel>::FIXED,)*];
    };
}

for_each_kernel!([fixed_kinds]);

impl Layout {
    /// Returns the kind of entry that a store with one value per subject writes.
    #[must_use]
    pub const fn kind(self) -> u8 {
        match self {
            Self::Fixed(FixedKind { kind, .. }) | Self::Listed { kind } => kind,
            Self::Apart { whole, .. } => whole,
        }
    }
}

impl FixedKind {
    /// Returns the number of bytes of an entry.
    #[must_use]
    pub const fn bytes(self) -> usize {
        HEAD_BYTES + self.numbers * NUMBER_BYTES
    }
}

/// Returns the smallest `k` for which 2^k µs are at least `micros`.
#[must_use]
pub const fn retention(micros: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
    {
        (64 - micros.saturating_sub(1).leading_zeros()) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kernels_share_a_kind() {
        for (index, one) in FIXED_KINDS.iter().enumerate() {
            assert!(one.kind < LISTED_FROM && one.numbers >= 1, "{one:?}");
            assert!(FIXED_KINDS[..index].iter().all(|other| other.kind != one.kind), "{one:?}");
        }
    }
}
