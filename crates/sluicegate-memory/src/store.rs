//! The embedded store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_core::{Clock, StoreId, Timestamp};

use crate::budget::Load;
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::registry::{Overflow, Registry};

/// A store inside the process. Cloning is cheap, and clones are one store.
///
/// It holds at most [`Builder::max_keys`](crate::Builder::max_keys) keys, and at most
/// [`Builder::max_bytes`](crate::Builder::max_bytes) for them. States that equal a fresh key's are removed by
/// and by as new keys come; call [`MemoryStore::sweep_some`] now and then to have that done
/// without them.
#[derive(Clone)]
pub struct MemoryStore {
    registry: Arc<Registry>,
    fingerprinter: Fingerprinter,
    number: u64,
}

/// What a store holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The keys kept, counted once for each policy that keeps something of them.
    pub keys: usize,
    /// The most there may be.
    pub max_keys: usize,
    /// Keys that were forgotten to make room although they did not equal a fresh one.
    pub evicted_live: u64,
    /// Bytes that they may take: of logs and rings, what they take on the heap, of each state eight
    /// fifths of its place in a table, which is never emptier than that. Tables of a fifth less are
    /// usual.
    pub bytes: usize,
    /// The most there may be.
    pub max_bytes: usize,
}

impl MemoryStore {
    pub(crate) fn with(
        clock: Box<dyn Clock>,
        most: Load,
        overflow: Overflow,
        max_clock_back: u64,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let registry = Arc::new(Registry::new(clock, most, overflow, max_clock_back));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { registry, fingerprinter: Fingerprinter::new(), number }
    }

    /// Returns the time that the store's clock shows, for [`MemoryLimit::decide_at`](crate::MemoryLimit::decide_at).
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.registry.clock.now()
    }

    pub(crate) fn store_id(&self) -> StoreId {
        StoreId::new(&format!("memory:{}", self.number))
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    #[inline]
    pub(crate) fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        self.fingerprinter.of(key)
    }

    /// Removes states that equal a fresh key's from the next few hundred places, and gives how many
    /// there were. A maintenance task that calls this a hundred times a second keeps an idle store
    /// from holding on to its memory, and goes round a million keys in half a minute.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn sweep_some(&self) -> usize {
        self.registry.sweep(SLOTS_PER_SWEEP)
    }

    /// Removes all states that equal a fresh key's, and gives how many there were. That may take
    /// as many milliseconds as there are thousands of keys; decisions go on meanwhile.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn purge(&self) -> usize {
        self.registry.purge()
    }

    /// What the store holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let budget = &self.registry.budget;
        let (taken, most) = (budget.taken(), budget.most());
        Stats {
            keys: taken.keys,
            max_keys: most.keys,
            evicted_live: budget.evicted_live(),
            bytes: taken.bytes,
            max_bytes: most.bytes,
        }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.registry.budget.taken().keys)
            .field("max_keys", &self.registry.budget.most().keys)
            .finish_non_exhaustive()
    }
}

/// Few enough that a sweep takes some microseconds, and a small part of a millisecond where all of
/// them have to be emptied: entries of logs are freed one by one.
const SLOTS_PER_SWEEP: usize = 512;
