//! The states of one policy, cut into shards.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use sluicegate_core::kernel::Now;

use crate::budget::Budget;
use crate::cell::Cell;
use crate::fingerprint::Fingerprint;
use crate::judges::Judges;
use crate::lock::{Guard, Lock};
use crate::scales::Scales;
use crate::shard::{Candidate, Shard};

/// The states of one policy. Handles of a limit that was opened anew with other numbers share it.
pub(crate) struct Table<C: Cell> {
    /// The order in which a decision over several policies takes its locks.
    id: u64,
    shards: Box<[Lock<Shard<C>>]>,
    mask: u64,
    scales: Scales,
    judges: RwLock<Judges<C>>,
    budget: Arc<Budget>,
    /// How far ahead of now a state may lie; `None` under injected time.
    max_clock_back: Option<u64>,
}

impl<C: Cell> Table<C> {
    pub(crate) fn new(shards: usize, budget: &Arc<Budget>, max_clock_back: Option<u64>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shards: Box<[_]> = (0..shards.next_power_of_two()).map(|_| Lock::default()).collect();
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            mask: shards.len() as u64 - 1,
            shards,
            scales: Scales::default(),
            judges: RwLock::default(),
            budget: Arc::clone(budget),
            max_clock_back,
        }
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn scales(&self) -> &Scales {
        &self.scales
    }

    /// Locks the shard of a fingerprint.
    #[inline]
    pub(crate) fn lock(&self, fingerprint: Fingerprint) -> Guard<'_, Shard<C>> {
        self.shards[self.place_of(fingerprint)].lock()
    }

    /// Locks the shard at a place unless somebody else has it.
    #[inline]
    pub(crate) fn try_lock(&self, place: usize) -> Option<Guard<'_, Shard<C>>> {
        self.shards[place].try_lock()
    }

    /// The place of a fingerprint's shard.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of shards")]
    pub(crate) const fn place_of(&self, fingerprint: Fingerprint) -> usize {
        (fingerprint.low & self.mask) as usize
    }

    /// Puts in a state for which there is room in the budget, and looks whether others may go.
    pub(crate) fn insert(&self, shard: &mut Shard<C>, fingerprint: Fingerprint, cell: C, now: u64) {
        if shard.is_crowded() {
            // Growing costs as much as looking at everything: see first whether it is needed.
            let removed =
                self.judged(self.long_ago(now), |expires_in| shard.sweep(usize::MAX, expires_in));
            self.budget.release(removed);
            if removed * 8 < shard.len() {
                shard.insert(fingerprint, cell);
                return;
            }
        } else if shard.len().is_multiple_of(INSERTS_PER_SWEEP) {
            let removed = self
                .judged(self.long_ago(now), |expires_in| shard.sweep(SLOTS_PER_SWEEP, expires_in));
            self.budget.release(removed);
        }
        shard.insert(fingerprint, cell);
    }

    /// Takes out the state at an index.
    pub(crate) fn remove(&self, shard: &mut Shard<C>, index: usize) {
        shard.remove(index);
        self.budget.release(1);
    }

    /// The state of a locked shard that should go first, of a bounded sample.
    pub(crate) fn candidate(&self, shard: &mut Shard<C>, now: u64) -> Option<Candidate> {
        if shard.len() == 0 {
            return None;
        }
        self.judged(now, |expires_in| shard.candidate(SAMPLE, expires_in))
    }

    fn take_from(&self, shard: &mut Shard<C>, now: u64, live: bool) -> Option<bool> {
        let Candidate { index, expires_in } = self.candidate(shard, now)?;
        if expires_in > 0 && !live {
            return None;
        }
        shard.remove(index);
        Some(expires_in > 0)
    }

    /// Counts a handle that judges by `rule`.
    pub(crate) fn join(&self, rule: &C::Kernel) {
        self.judges.write().unwrap_or_else(PoisonError::into_inner).join(rule);
    }

    /// Counts out a handle that judged by `rule`.
    pub(crate) fn leave(&self, rule: &C::Kernel) {
        self.judges.write().unwrap_or_else(PoisonError::into_inner).leave(rule);
    }

    /// Whether it is judged by injected time.
    pub(crate) const fn is_injected(&self) -> bool {
        self.max_clock_back.is_none()
    }

    /// When a state has to have been fresh to go without need. Other threads may still decide by a
    /// time that they read a while ago, and a clock may step back.
    fn long_ago(&self, now: u64) -> u64 {
        now.saturating_sub(self.max_clock_back.unwrap_or(0))
    }

    /// Calls with the function that says how many µs from now a state may go.
    fn judged<T>(&self, now: u64, call: impl FnOnce(&dyn Fn(&C) -> u64) -> T) -> T {
        let judges = self.judges.read().unwrap_or_else(PoisonError::into_inner);
        // Injected time can go anywhere; at the cap its states are compared by their own times.
        let now = Now {
            micros: if self.is_injected() { 0 } else { now },
            // As far ahead as before, seen from there.
            max_clock_back: self.max_clock_back.map(|bound| bound.saturating_mul(2)),
        };
        call(&|cell| judges.expires_in(cell, &self.scales, now))
    }
}

/// What the store does to tables of whatever kernel.
pub(crate) trait AnyTable: Any + Send + Sync {
    fn id(&self) -> u64;
    /// Takes out the state of a fingerprint.
    /// Forgets a subject; gives whether there was a state of it.
    fn forget(&self, fingerprint: Fingerprint) -> bool;
    /// Whether it holds nothing and nobody is about to put something in: doesn't wait for shards.
    fn is_empty(&self) -> bool;
    fn bytes(&self) -> usize;
    /// Removes what may go from one shard; gives how many states those were.
    fn purge(&self, shard: usize, now: u64) -> usize;
    /// Removes one state from one shard, unless somebody else has it locked: one that may go, or
    /// else, when `live` states may go too, the one closest to it. Gives whether it was live.
    /// The room stays taken.
    fn take_one(&self, shard: usize, now: u64, live: bool) -> Option<bool>;
    /// The same of any state, waiting for the shard if it is locked.
    fn wait_and_take_one(&self, shard: usize, now: u64) -> Option<bool>;
}

impl<C: Cell> AnyTable for Table<C> {
    fn id(&self) -> u64 {
        self.id
    }

    fn forget(&self, fingerprint: Fingerprint) -> bool {
        let mut shard = self.lock(fingerprint);
        let found = shard.find(fingerprint).ok();
        found.inspect(|&index| self.remove(&mut shard, index)).is_some()
    }

    fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.try_lock().is_some_and(|shard| shard.len() == 0))
    }

    fn bytes(&self) -> usize {
        let slots: usize = self.shards.iter().map(|shard| shard.lock().bytes()).sum();
        slots + size_of::<Self>() + self.shards.len() * size_of::<Lock<Shard<C>>>()
    }

    fn purge(&self, shard: usize, now: u64) -> usize {
        let mut shard = self.shards[shard].lock();
        let removed = self.judged(self.long_ago(now), |expires_in| shard.purge(expires_in));
        self.budget.release(removed);
        removed
    }

    fn take_one(&self, shard: usize, now: u64, live: bool) -> Option<bool> {
        self.take_from(&mut *self.shards[shard].try_lock()?, now, live)
    }

    fn wait_and_take_one(&self, shard: usize, now: u64) -> Option<bool> {
        self.take_from(&mut *self.shards[shard].lock(), now, true)
    }
}

impl<C: Cell> Drop for Table<C> {
    fn drop(&mut self) {
        let left = self.shards.iter().map(|shard| shard.lock().len()).sum();
        self.budget.release(left);
    }
}

/// A sweep for every so many states that come. With the next number: four slots are looked at
/// for each, so that what may go is never much more than a third of what may not.
const INSERTS_PER_SWEEP: usize = 8;
/// Slots looked at in a sweep.
const SLOTS_PER_SWEEP: usize = 32;
/// States compared when one has to go.
const SAMPLE: usize = 16;
