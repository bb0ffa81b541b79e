//! The capacity of the whole store.

use std::ops::{Add, AddAssign};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A number of states, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Load {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

/// The exhausted part of the capacity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Short {
    Keys,
    Bytes,
}

/// The capacity of the store. Accessed only when a state is added, removed or resized.
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

/// Capacity reserved for one request. Dropping it returns the unused part.
#[derive(Debug)]
pub(crate) struct Room<'b> {
    budget: &'b Budget,
    taken: Load,
    /// The load that could not be reserved, although other states could be evicted for it.
    pub(crate) wanted: Option<Load>,
    /// Whether the request must be answered with the capacity it has.
    pub(crate) final_try: bool,
}

impl Load {
    pub(crate) const NONE: Self = Self { keys: 0, bytes: 0 };

    pub(crate) const fn is_none(self) -> bool {
        self.keys == 0 && self.bytes == 0
    }

    /// Returns the part of the load that exceeds `other`.
    pub(crate) const fn beyond(self, other: Self) -> Self {
        Self {
            keys: self.keys.saturating_sub(other.keys),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Returns the keys or bytes of the load.
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

    /// Reserves the whole load, or nothing.
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

    /// Reserves the load, even beyond the cap.
    pub(crate) fn take(&self, load: Load) {
        if load.keys > 0 {
            self.keys.fetch_add(load.keys, Ordering::Relaxed);
        }
        if load.bytes > 0 {
            self.bytes.fetch_add(load.bytes, Ordering::Relaxed);
        }
    }

    /// Releases a load.
    pub(crate) fn release(&self, load: Load) {
        if load.keys > 0 {
            self.keys.fetch_sub(load.keys, Ordering::Relaxed);
        }
        if load.bytes > 0 {
            self.bytes.fetch_sub(load.bytes, Ordering::Relaxed);
        }
    }

    /// Returns the reserved load.
    pub(crate) fn taken(&self) -> Load {
        Load { keys: self.keys.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    /// Returns the maximum load.
    pub(crate) const fn most(&self) -> Load {
        self.most
    }

    /// Returns whether the load fits.
    pub(crate) fn has_room_for(&self, load: Load) -> bool {
        let after = self.taken() + load;
        after.keys <= self.most.keys && after.bytes <= self.most.bytes
    }

    /// Registers an opened policy, with the load of one of its keys.
    pub(crate) fn open(&self, first: Load) {
        self.open_keys.fetch_add(first.keys, Ordering::Relaxed);
        self.open_bytes.fetch_add(first.bytes, Ordering::Relaxed);
    }

    /// Unregisters a policy that no limit has open any longer.
    pub(crate) fn close(&self, first: Load) {
        self.open_keys.fetch_sub(first.keys, Ordering::Relaxed);
        self.open_bytes.fetch_sub(first.bytes, Ordering::Relaxed);
    }

    /// Returns the load of one key of each opened limit.
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

    /// Reserves the part of the load that is missing, or nothing.
    pub(crate) fn try_fill(&mut self, load: Load) -> Result<(), Short> {
        let missing = load.beyond(self.taken);
        self.budget.try_take(missing)?;
        self.taken += missing;
        Ok(())
    }

    /// Returns the part of a load that isn't reserved yet.
    pub(crate) const fn missing(&self, load: Load) -> Load {
        load.beyond(self.taken)
    }

    /// Adds the load of a removed state.
    pub(crate) fn add(&mut self, load: Load) {
        self.taken += load;
    }

    /// Uses reserved capacity for a stored load, which may exceed the reservation.
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
