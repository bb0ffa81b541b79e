//! The subjects that came last, while a store is nearly full.

use std::collections::VecDeque;

use crate::fingerprint::Fingerprint;
use crate::lock::Lock;

/// The subjects of a table that came last.
///
/// A flood brings keys that are used once. Where nearly all other states are exhausted, a sample
/// of the table may show none of them; here they are.
#[derive(Default)]
pub(crate) struct RecentKeys(Lock<VecDeque<Fingerprint>>);

impl RecentKeys {
    /// How many are remembered.
    pub(crate) const MOST: usize = 256;

    /// Remembers one. Its thread may hold a shard: nothing is locked while this lock is held.
    pub(crate) fn add(&self, fingerprint: Fingerprint) {
        let mut newcomers = self.0.lock();
        if newcomers.len() == Self::MOST {
            newcomers.pop_front();
        }
        newcomers.push_back(fingerprint);
    }

    /// All, the oldest first. Each is forgotten when it is given, so that looking at them costs no
    /// more than it did to remember them.
    pub(crate) fn take(&self) -> impl Iterator<Item = Fingerprint> {
        (0..Self::MOST).map_while(|_| self.0.lock().pop_front())
    }
}
