//! The embedded store.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Add as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::{
    Clock, Hold, HoldId, Limit, OpenOptions, Request, Store as _, StoreId, Timestamp,
};

use crate::budget::Load;
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::kernels::first_load;
use crate::registry::{Overflow, Registry};

/// A store inside the process. Cloning is cheap; all clones share one store.
///
/// It holds at most [`Builder::max_keys`](crate::Builder::max_keys) keys in at most
/// [`Builder::max_bytes`](crate::Builder::max_bytes). States that equal a fresh key's are removed
/// gradually as new keys arrive. Call [`MemoryStore::sweep_some`] regularly to remove them without
/// new keys.
#[derive(Clone)]
pub struct MemoryStore {
    registry: Arc<Registry>,
    fingerprinter: Fingerprinter,
    number: u64,
}

/// The size of a store and its caps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of keys, counted once for each policy that stores a state of the key.
    pub keys: usize,
    /// Maximum number of keys.
    pub max_keys: usize,
    /// Number of keys that were evicted although their states did not equal a fresh key's.
    pub evicted_live: u64,
    /// Bytes that the keys may take: the heap memory of logs and rings, and 8/5 of each state's
    /// slot.
    ///
    /// A table is always at least 5/8 full, and usual tables take a fifth less. A limit without
    /// keys takes about 1 kB for each policy, which isn't counted.
    pub bytes: usize,
    /// Maximum number of bytes.
    pub max_bytes: usize,
}

/// The smallest caps that hold one key of each limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Smallest {
    /// Value for [`Builder::max_keys`](crate::Builder::max_keys).
    pub max_keys: usize,
    /// Value for [`Builder::max_bytes`](crate::Builder::max_bytes).
    pub max_bytes: usize,
}

impl MemoryStore {
    /// Returns the smallest caps that hold one key of each limit.
    ///
    /// A key counts with the states of its policies after a check that costs one unit, without
    /// bans.
    ///
    /// ```
    /// use sluicegate_core::Limit;
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("login", ["token_bucket 10/s burst 20", "fixed_window 9/d"])?;
    /// let smallest = MemoryStore::smallest_for([&limit]);
    /// assert_eq!(smallest.max_keys, 2);
    /// # Ok::<(), sluicegate_core::LimitError>(())
    /// ```
    pub fn smallest_for<'l>(limits: impl IntoIterator<Item = &'l Limit>) -> Smallest {
        let limits = limits.into_iter();
        let (holding, others): (Vec<_>, Vec<_>) = limits.partition(|limit| limit.has_permits());
        let parts = |limit: &'l Limit| {
            limit.members().iter().map(|member| (&limit.parts()[member.part()], member))
        };
        let members = others.into_iter().flat_map(parts);
        // Policies that differ only in numbers share their states.
        let mut seen = HashSet::new();
        let own = members.filter(|(name, member)| seen.insert((name.as_str(), member.identity())));
        let loads = own.map(|(_, member)| first_load(member.policy().rule()));
        let Load { keys, bytes } = loads.fold(held_load(&holding), Load::add);
        Smallest { max_keys: keys, max_bytes: bytes }
    }

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

    /// Returns the time of the store's clock, for
    /// [`MemoryLimit::decide_at`](crate::MemoryLimit::decide_at).
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

    /// Removes states that equal a fresh key's from the next 512 slots, and returns their number.
    ///
    /// A maintenance task that calls this 100 times a second frees the memory of an idle store. It
    /// goes through a million keys in half a minute.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn sweep_some(&self) -> usize {
        self.registry.sweep(SLOTS_PER_SWEEP)
    }

    /// Removes all states that equal a fresh key's, and returns their number.
    ///
    /// This may take one millisecond for each thousand keys. Decisions continue in the meantime.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn purge(&self) -> usize {
        self.registry.purge()
    }

    /// Returns the size of the store and its caps.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let budget = self.registry.budget();
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

/// Returns the load of one key of each limit that counts units in flight. It is measured, because
/// the records depend on all policies.
fn held_load(limits: &[&Limit]) -> Load {
    let most = NonZeroUsize::MAX;
    let store = MemoryStore::builder().max_keys(most).max_bytes(most).build();
    let hold = Hold { id: HoldId::from_bytes([1; HoldId::BYTES]), lasts: Duration::from_secs(60) };
    for limit in limits {
        let opened = store.open((*limit).clone(), OpenOptions::default());
        let further = vec![&b"key"[..]; limit.parts().len() - 1];
        // A denied or refused request holds nothing.
        let _ = opened.decide(Request::check(b"key").also(&further).hold(&hold));
    }
    store.registry.budget().taken()
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.registry.budget().taken().keys)
            .field("max_keys", &self.registry.budget().most().keys)
            .finish_non_exhaustive()
    }
}

/// Slots that a sweep examines. That takes some microseconds. Emptying all of them takes a small
/// part of a millisecond, because log entries are freed one by one.
const SLOTS_PER_SWEEP: usize = 512;
