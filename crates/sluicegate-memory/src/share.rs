//! The load of one limit, and its tables.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use sluicegate_core::TimeSource;
use smallvec::SmallVec;

use crate::budget::{Load, Short};
use crate::fingerprint::Fingerprint;
use crate::latest_pause::LatestPause;
use crate::lock::Lock;

/// The tables of one limit, and the total load of their states.
pub(crate) struct Share {
    time: TimeSource,
    limit: Box<str>,
    keys: Weight,
    bytes: Weight,
    paused: LatestPause,
    tables: Lock<Vec<Weak<dyn AnyTable>>>,
}

/// Number of states or bytes that a limit holds, and its place in the ranking by them.
#[derive(Default)]
pub(crate) struct Weight {
    pub(crate) sum: AtomicUsize,
    /// Written under the lock of the ranking, as is `index`.
    pub(crate) class: AtomicUsize,
    pub(crate) index: AtomicUsize,
}

/// Operations of the store on tables of any kernel.
pub(crate) trait AnyTable: Any + Send + Sync {
    fn id(&self) -> u64;
    /// Returns the limit's share, which covers all its tables.
    fn share(&self) -> &Arc<Share>;
    /// Forgets a subject, and returns whether it had a state.
    fn forget(&self, fingerprint: Fingerprint) -> bool;
    /// Returns whether the table is empty and no limit has it open.
    fn is_unused(&self) -> bool;
    /// Clears the mark of a listed table if it is empty, and returns whether it did. Called under
    /// the lock of the list.
    fn unlist(&self) -> bool;
    /// Returns the load of the table's states.
    fn load(&self) -> Load;
    /// Removes expired states, and returns their number.
    fn purge(&self, now: u64) -> usize;
    /// Removes expired states from up to `slots` slots of the next shard.
    fn sweep(&self, slots: usize, now: u64) -> Swept;
    /// Takes a fresh state from the next shard, unless another thread holds the shard or its sample
    /// has none. The caller takes over the reserved capacity. Also returns whether that was the
    /// last shard.
    fn take_fresh_from_next(&self, now: u64) -> (Option<Load>, bool);
    /// Takes the state of the smallest worth in a sample of the next unlocked shard. If `waits`,
    /// waits for locked shards and takes it from the next one that holds something.
    fn take_least_of_all(&self, waits: bool, spare: &[Fingerprint], now: u64) -> Option<Taken>;
}

/// A state that was taken out. The caller takes over its reserved capacity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) load: Load,
    /// Whether the state did not equal a fresh key's.
    pub(crate) was_live: bool,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swept {
    pub(crate) removed: usize,
    /// Number of examined slots.
    pub(crate) looked: usize,
    /// Whether the sweep reached the end of the table.
    pub(crate) is_done: bool,
}

impl Share {
    pub(crate) fn of(time: TimeSource, limit: Box<str>) -> Self {
        Self {
            time,
            limit,
            keys: Weight::default(),
            bytes: Weight::default(),
            paused: LatestPause::default(),
            tables: Lock::default(),
        }
    }

    /// Returns the time source and the limit's name.
    pub(crate) fn owner(&self) -> (&TimeSource, &str) {
        (&self.time, &self.limit)
    }

    /// Returns the end of the limit's latest pause.
    pub(crate) const fn paused(&self) -> &LatestPause {
        &self.paused
    }

    /// Adds a table to the limit.
    pub(crate) fn add_table(&self, table: Weak<dyn AnyTable>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(table);
    }

    /// Returns the load of the limit's states.
    pub(crate) fn load(&self) -> Load {
        Load { keys: self.keys.sum.load(SeqCst), bytes: self.bytes.sum.load(SeqCst) }
    }

    /// Returns the limit's table that holds most.
    pub(crate) fn heaviest(&self, short: Short) -> Option<Arc<dyn AnyTable>> {
        // This may drop the last handle of a table, which must not happen under the lock.
        let tables: SmallVec<[Arc<dyn AnyTable>; 4]> =
            self.tables.lock().iter().filter_map(Weak::upgrade).collect();
        tables.into_iter().max_by_key(|table| table.load().of(short))
    }

    pub(crate) const fn by(&self, short: Short) -> &Weight {
        match short {
            Short::Keys => &self.keys,
            Short::Bytes => &self.bytes,
        }
    }
}
