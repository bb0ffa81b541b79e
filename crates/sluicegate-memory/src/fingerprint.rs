//! Fingerprints of keys: 128 bits of a hash under the store's own secret.
//!
//! An attacker can't choose keys that collide. Two of 10^9 keys share a fingerprint with a
//! probability of 2^-69.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip128::SipHasher13;

/// The fingerprint of a key. The high half orders a shard, the low half picks it.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Fingerprint {
    pub(crate) high: u64,
    pub(crate) low: u64,
}

/// A hasher that makes fingerprints under one secret.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprinter(SipHasher13);

impl Fingerprint {
    /// The mark of an empty slot, larger than every key in the order of a shard.
    pub(crate) const NONE: Self = Self { high: u64::MAX, low: u64::MAX };
}

impl Fingerprinter {
    /// Returns a fingerprinter with a new secret.
    pub(crate) fn new() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self(SipHasher13::new_with_keys(random(), random()))
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> Fingerprint {
        let hash = self.0.hash(key);
        Fingerprint { high: hash.h1.min(u64::MAX - 1), low: hash.h2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_a_secret_of_its_own() {
        assert_ne!(Fingerprinter::new().of(b"alice"), Fingerprinter::new().of(b"alice"));
    }

    #[test]
    fn the_hash_is_siphash_1_3_with_128_bits() {
        let one = Fingerprinter(SipHasher13::new_with_keys(1, 2));
        assert_eq!(one.of(b"alice"), one.of(b"alice"));
        assert_ne!(one.of(b"alice"), one.of(b"alicf"));
        assert_ne!(one.of(b""), one.of(b"\0"));
        assert_ne!(one.of(&[0; 8]), one.of(&[0; 9]));
    }
}
