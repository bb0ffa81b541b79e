//! The latest keys of a nearly full store.

use std::collections::VecDeque;

use crate::fingerprint::Fingerprint;
use crate::lock::Lock;

/// The latest subjects of a table.
///
/// A flood brings keys that are used once. If nearly all other states are exhausted, a sample of
/// the table may contain none of these keys, so they are remembered here.
#[derive(Default)]
pub(crate) struct RecentKeys(Lock<VecDeque<Fingerprint>>);

impl RecentKeys {
    /// Maximum number of remembered subjects.
    pub(crate) const MOST: usize = 256;

    /// Remembers a subject. The calling thread may hold a shard: no other lock is taken under this
    /// lock.
    pub(crate) fn add(&self, fingerprint: Fingerprint) {
        let mut newcomers = self.0.lock();
        if newcomers.len() == Self::MOST {
            newcomers.pop_front();
        }
        newcomers.push_back(fingerprint);
    }

    /// Returns all subjects, the oldest first. Each is forgotten when it is returned, so a subject
    /// is examined only once.
    pub(crate) fn take(&self) -> impl Iterator<Item = Fingerprint> {
        (0..Self::MOST).map_while(|_| self.0.lock().pop_front())
    }
}
