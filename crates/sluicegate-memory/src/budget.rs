//! How many states the whole store may keep.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The store's room for states. Touched only when a state comes or goes.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: AtomicUsize,
    most: usize,
    evicted_live: AtomicU64,
}

/// Room for the states that one request brings; what isn't used is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room<'b> {
    budget: &'b Budget,
    taken: usize,
    /// For how many states there was too little, though others could go for them.
    pub(crate) wanted: usize,
    /// Whether the request is answered with what room there is.
    pub(crate) final_try: bool,
}

impl Budget {
    pub(crate) const fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most, evicted_live: AtomicU64::new(0) }
    }

    /// Takes room for `count` states, all or none.
    pub(crate) fn try_take(&self, count: usize) -> bool {
        let room = |taken: usize| taken.checked_add(count).filter(|&sum| sum <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }

    /// Gives room back.
    pub(crate) fn release(&self, count: usize) {
        if count > 0 {
            self.taken.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// The states kept.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// The states there may be.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn count_evicted_live(&self) {
        self.evicted_live.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn evicted_live(&self) -> u64 {
        self.evicted_live.load(Ordering::Relaxed)
    }
}

impl<'b> Room<'b> {
    pub(crate) const fn none(budget: &'b Budget) -> Self {
        Self { budget, taken: 0, wanted: 0, final_try: false }
    }

    /// Takes what is missing to room for `count` states, all or none.
    pub(crate) fn try_fill(&mut self, count: usize) -> bool {
        let missing = count.saturating_sub(self.taken);
        let is_there = missing == 0 || self.budget.try_take(missing);
        if is_there {
            self.taken += missing;
        }
        is_there
    }

    /// Adds the room of a state that was removed.
    pub(crate) const fn add(&mut self) {
        self.taken += 1;
    }

    /// Uses room for `count` states that were kept.
    pub(crate) const fn spend(&mut self, count: usize) {
        self.taken = self.taken.saturating_sub(count);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.budget.release(self.taken);
    }
}
