//! Fingerprints of subjects.

use std::hash::{BuildHasher as _, Hash, Hasher as _, RandomState};

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// A subject of a limit, as a fingerprint under secret keys of this process.
pub(super) type Fingerprint = u128;

/// Makes fingerprints.
#[derive(Debug)]
pub(super) struct Fingerprints {
    keys: SipHasher13,
}

impl Fingerprints {
    /// Returns the fingerprint of a subject under a limit, by its name or number.
    pub(super) fn of(&self, limit: impl Hash, subject: &[u8]) -> Fingerprint {
        let mut hasher = self.keys;
        limit.hash(&mut hasher);
        hasher.write(subject);
        hasher.finish128().as_u128()
    }
}

impl Default for Fingerprints {
    fn default() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self { keys: SipHasher13::new_with_keys(random(), random()) }
    }
}
