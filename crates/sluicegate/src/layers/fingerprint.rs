//! Fingerprints of subjects.

use std::hash::{BuildHasher as _, Hash, RandomState};

/// A subject of a limit, as a fingerprint with keys that nobody outside of this process knows.
pub(super) type Fingerprint = u128;

/// Makes fingerprints.
#[derive(Debug, Default)]
pub(super) struct Fingerprints([RandomState; 2]);

impl Fingerprints {
    /// The fingerprint of a subject under a limit, by its name or number.
    pub(super) fn of(&self, limit: impl Hash, subject: &[u8]) -> Fingerprint {
        let [high, low] = self.0.each_ref().map(|keys| keys.hash_one((&limit, subject)));
        Fingerprint::from(high) << 64 | Fingerprint::from(low)
    }

    /// A short fingerprint of costs.
    pub(super) fn of_costs(&self, costs: &[u64]) -> u64 {
        self.0[0].hash_one(costs)
    }
}
