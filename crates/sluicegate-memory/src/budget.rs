//! How much the whole store may keep.

use std::ops::{Add, AddAssign};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// So many states, and so many bytes that they take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Load {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

/// What there is too little room for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Short {
    Keys,
    Bytes,
}

/// The store's room for states. Touched only when a state comes, goes, or takes other room.
#[derive(Debug)]
pub(crate) struct Budget {
    keys: AtomicUsize,
    bytes: AtomicUsize,
    most: Load,
    /// The load of one key of each opened limit.
    open_keys: AtomicUsize,
    open_bytes: AtomicUsize,
    evicted_live: AtomicU64,
}

/// Room for what one request brings; what isn't used is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room<'b> {
    budget: &'b Budget,
    taken: Load,
    /// For how much there was too little, though others could go for it.
    pub(crate) wanted: Option<Load>,
    /// Whether the request is answered with what room there is.
    pub(crate) final_try: bool,
}

impl Load {
    pub(crate) const NONE: Self = Self { keys: 0, bytes: 0 };

    pub(crate) const fn is_none(self) -> bool {
        self.keys == 0 && self.bytes == 0
    }

    /// Of that, what goes beyond another one.
    pub(crate) const fn beyond(self, other: Self) -> Self {
        Self {
            keys: self.keys.saturating_sub(other.keys),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// How much it is of what there is too little room for.
    pub(crate) const fn of(self, short: Short) -> usize {
        match short {
            Short::Keys => self.keys,
            Short::Bytes => self.bytes,
        }
    }
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            keys: self.keys.saturating_add(other.keys),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Budget {
    pub(crate) const fn new(most: Load) -> Self {
        Self {
            keys: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            most,
            open_keys: AtomicUsize::new(0),
            open_bytes: AtomicUsize::new(0),
            evicted_live: AtomicU64::new(0),
        }
    }

    /// Takes room, all or none.
    pub(crate) fn try_take(&self, load: Load) -> Result<(), Short> {
        if !try_add(&self.keys, load.keys, self.most.keys) {
            return Err(Short::Keys);
        }
        if !try_add(&self.bytes, load.bytes, self.most.bytes) {
            self.release(Load { bytes: 0, ..load });
            return Err(Short::Bytes);
        }
        Ok(())
    }

    /// Takes room whether it is there or not.
    pub(crate) fn take(&self, load: Load) {
        if load.keys > 0 {
            self.keys.fetch_add(load.keys, Ordering::Relaxed);
        }
        if load.bytes > 0 {
            self.bytes.fetch_add(load.bytes, Ordering::Relaxed);
        }
    }

    /// Gives room back.
    pub(crate) fn release(&self, load: Load) {
        if load.keys > 0 {
            self.keys.fetch_sub(load.keys, Ordering::Relaxed);
        }
        if load.bytes > 0 {
            self.bytes.fetch_sub(load.bytes, Ordering::Relaxed);
        }
    }

    /// What is kept.
    pub(crate) fn taken(&self) -> Load {
        Load { keys: self.keys.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    /// What there may be.
    pub(crate) const fn most(&self) -> Load {
        self.most
    }

    /// Whether there is room for so much more.
    pub(crate) fn has_room_for(&self, load: Load) -> bool {
        let after = self.taken() + load;
        after.keys <= self.most.keys && after.bytes <= self.most.bytes
    }

    /// Counts a policy that is opened, with what one key of it takes.
    pub(crate) fn open(&self, first: Load) {
        self.open_keys.fetch_add(first.keys, Ordering::Relaxed);
        self.open_bytes.fetch_add(first.bytes, Ordering::Relaxed);
    }

    /// Counts out a policy that no limit has open any more.
    pub(crate) fn close(&self, first: Load) {
        self.open_keys.fetch_sub(first.keys, Ordering::Relaxed);
        self.open_bytes.fetch_sub(first.bytes, Ordering::Relaxed);
    }

    /// The load of one key of each opened limit.
    pub(crate) fn needed(&self) -> Load {
        Load {
            keys: self.open_keys.load(Ordering::Relaxed),
            bytes: self.open_bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn count_evicted_live(&self) {
        self.evicted_live.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn evicted_live(&self) -> u64 {
        self.evicted_live.load(Ordering::Relaxed)
    }
}

fn try_add(taken: &AtomicUsize, count: usize, most: usize) -> bool {
    let room = |taken: usize| taken.checked_add(count).filter(|&sum| sum <= most);
    count == 0 || taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
}

impl<'b> Room<'b> {
    pub(crate) const fn none(budget: &'b Budget) -> Self {
        Self { budget, taken: Load::NONE, wanted: None, final_try: false }
    }

    /// Takes what is missing to room for a load, all or none.
    pub(crate) fn try_fill(&mut self, load: Load) -> Result<(), Short> {
        let missing = load.beyond(self.taken);
        self.budget.try_take(missing)?;
        self.taken += missing;
        Ok(())
    }

    /// Returns the part of a load for which there is no room yet.
    pub(crate) const fn missing(&self, load: Load) -> Load {
        load.beyond(self.taken)
    }

    /// Adds the room of a state that was removed.
    pub(crate) fn add(&mut self, load: Load) {
        self.taken += load;
    }

    /// Uses room for what was kept, which may be more than was foreseen.
    pub(crate) fn spend(&mut self, load: Load) {
        self.budget.take(load.beyond(self.taken));
        self.taken = self.taken.beyond(load);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.budget.release(self.taken);
    }
}
