//! How many states the whole store may keep.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The store's room for states. Touched only when a state comes or goes.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: AtomicUsize,
    most: usize,
    evicted_live: AtomicU64,
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
