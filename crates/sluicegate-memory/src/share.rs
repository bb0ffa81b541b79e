//! What one limit of a store holds, and the tables that it holds it in.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use sluicegate_core::TimeSource;
use smallvec::SmallVec;

use crate::budget::{Load, Short};
use crate::fingerprint::Fingerprint;
use crate::lock::Lock;

/// The tables of one limit, and the sum of what their states take.
pub(crate) struct Share {
    time: TimeSource,
    limit: Box<str>,
    keys: Weight,
    bytes: Weight,
    tables: Lock<Vec<Weak<dyn AnyTable>>>,
}

/// Number of states or bytes that a limit holds, and its place in the ranking by them.
#[derive(Default)]
pub(crate) struct Weight {
    pub(crate) sum: AtomicUsize,
    /// Written under the lock of the ranking, as the index is.
    pub(crate) class: AtomicUsize,
    pub(crate) index: AtomicUsize,
}

/// What the store does to tables of any kernel.
pub(crate) trait AnyTable: Any + Send + Sync {
    fn id(&self) -> u64;
    /// The limit's load, in all its tables.
    fn share(&self) -> &Arc<Share>;
    /// Forgets a subject; gives whether there was a state of it.
    fn forget(&self, fingerprint: Fingerprint) -> bool;
    /// Whether it holds nothing and no limit has it open.
    fn is_unused(&self) -> bool;
    /// Takes the mark of a listed table away, unless it holds something. Called under the lock of the list.
    fn unlist(&self) -> bool;
    /// What its states take.
    fn load(&self) -> Load;
    /// Removes what may go; gives how many states those were.
    fn purge(&self, now: u64) -> usize;
    /// Removes what may go from the next `slots` slots of the next shard at most.
    fn sweep(&self, slots: usize, now: u64) -> Swept;
    /// Takes a state that may go without a loss from the next shard, unless another thread has it locked
    /// or there is none in a sample. Its room is the caller's. Also gives whether that was the last shard.
    fn take_fresh_from_next(&self, now: u64) -> (Option<Load>, bool);
    /// Takes the state that is worth least, of a sample of the next shard that no other thread has
    /// locked. If it `waits`, of the next shard that holds something.
    fn take_least_of_all(&self, waits: bool, spare: &[Fingerprint], now: u64) -> Option<Taken>;
}

/// A state that was taken out; its room is the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) load: Load,
    /// Whether it did not equal a fresh key's.
    pub(crate) was_live: bool,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swept {
    pub(crate) removed: usize,
    /// Slots it looked at.
    pub(crate) looked: usize,
    /// Whether it came to the end of the table.
    pub(crate) is_done: bool,
}

impl Share {
    pub(crate) fn of(time: TimeSource, limit: Box<str>) -> Self {
        Self {
            time,
            limit,
            keys: Weight::default(),
            bytes: Weight::default(),
            tables: Lock::default(),
        }
    }

    /// The time and the limit.
    pub(crate) fn owner(&self) -> (&TimeSource, &str) {
        (&self.time, &self.limit)
    }

    /// Counts a table to the limit.
    pub(crate) fn add_table(&self, table: Weak<dyn AnyTable>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(table);
    }

    /// Returns the load of the limit's states.
    pub(crate) fn load(&self) -> Load {
        Load { keys: self.keys.sum.load(SeqCst), bytes: self.bytes.sum.load(SeqCst) }
    }

    /// The limit's table that holds most.
    pub(crate) fn heaviest(&self, short: Short) -> Option<Arc<dyn AnyTable>> {
        // The last handle of a table may be dropped here: not under the lock.
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
