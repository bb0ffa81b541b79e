//! A shard: slots in one flat array, in the order of their fingerprints.
//!
//! The high half of a fingerprint determines its home slot. A taken slot pushes later ones to the
//! right. Home slots grow with fingerprints, so the array is sorted except for its gaps. A search
//! stops at the first larger fingerprint. A removal closes its gap without leaving a marker.
//! Growing is one pass from left to right. The last slots are home to no fingerprint, so nothing
//! has to wrap around.

use std::ops::AddAssign;

use crate::cell::Cell;
use crate::eviction_rules::Worth;
use crate::fingerprint::Fingerprint;

/// The slot of a state.
#[repr(C)]
struct Slot<C: Cell> {
    align: [C::Align; 0],
    fingerprint: Fingerprint,
    cell: C,
}

/// A part of a table's states.
pub(crate) struct Shard<C: Cell> {
    slots: Box<[Slot<C>]>,
    /// Number of slots that are home to fingerprints.
    homes: u64,
    taken: usize,
    /// Start of the next search for expired states.
    hand: usize,
}

/// A state that may be evicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    pub(crate) worth: Worth,
}

/// Number and size of removed states.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Removed {
    pub(crate) states: usize,
    /// Bytes outside the slots.
    pub(crate) heap: usize,
}

impl<C: Cell> Slot<C> {
    fn empty() -> Self {
        Self { align: [], fingerprint: Fingerprint::NONE, cell: C::default() }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.fingerprint == Fingerprint::NONE
    }
}

impl AddAssign for Removed {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.heap += other.heap;
    }
}

impl<C: Cell> Default for Shard<C> {
    fn default() -> Self {
        Self { slots: Box::default(), homes: 0, taken: 0, hand: 0 }
    }
}

impl<C: Cell> Shard<C> {
    /// Returns the index of a fingerprint, or `Err` with the index to insert it at.
    #[inline]
    pub(crate) fn find(&self, fingerprint: Fingerprint) -> Result<usize, usize> {
        let mut index = self.home(fingerprint);
        while let Some(slot) = self.slots.get(index) {
            let there = slot.fingerprint;
            if there.high >= fingerprint.high {
                if there == fingerprint {
                    return Ok(index);
                }
                if there > fingerprint {
                    break;
                }
            }
            index += 1;
        }
        Err(index)
    }

    /// Reads a value near the fingerprint's home slot, so that the processor fetches it.
    #[inline]
    pub(crate) fn glance(&self, fingerprint: Fingerprint) -> u64 {
        let home = self.home(fingerprint);
        // Most slots are moved by less than a cache line, which holds two of the smallest slots.
        let near = [home, home + 2].map(|index| self.slots.get(index));
        near.into_iter().flatten().fold(0, |seen, slot| seen ^ slot.fingerprint.low)
    }

    /// Returns the cell at an index that [`Shard::find`] found.
    #[inline]
    pub(crate) fn cell(&self, index: usize) -> &C {
        &self.slots[index].cell
    }

    /// Returns all cells, including those of free slots.
    pub(crate) fn cells(&self) -> impl ExactSizeIterator<Item = &C> {
        self.slots.iter().map(|slot| &slot.cell)
    }

    /// Returns the cell at an index, mutably.
    #[inline]
    pub(crate) fn cell_mut(&mut self, index: usize) -> &mut C {
        &mut self.slots[index].cell
    }

    /// Returns the number of states.
    pub(crate) const fn len(&self) -> usize {
        self.taken
    }

    /// Returns whether one more state would make searches slow.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.taken + 1 > self.slots.len() - self.slots.len() / 8
    }

    /// Inserts a state whose fingerprint is missing, and grows if necessary.
    pub(crate) fn insert(&mut self, fingerprint: Fingerprint, cell: C) {
        if self.is_crowded() {
            self.grow();
        }
        let index = self.find(fingerprint).unwrap_or_else(|index| index);
        let gap =
            self.slots[index..].iter().position(Slot::is_empty).map(|distance| index + distance);
        let gap = gap.unwrap_or_else(|| self.lengthen());
        self.slots[index..=gap].rotate_right(1);
        self.slots[index] = Slot { align: [], fingerprint, cell };
        self.taken += 1;
    }

    /// Takes out all states and distributes them to `N` shards.
    pub(crate) fn divide<const N: usize>(
        &mut self,
        part_of: impl Fn(Fingerprint) -> usize,
    ) -> [Self; N] {
        let whole = std::mem::take(self);
        let mut counts = [0; N];
        let taken = |slot: &Slot<C>| !slot.is_empty();
        for slot in whole.slots.iter().filter(|slot| taken(slot)) {
            counts[part_of(slot.fingerprint)] += 1;
        }
        let mut parts = counts.map(|count| {
            let mut part = Self::default();
            if count > 0 {
                part.resize(enough_for(count));
            }
            part
        });
        for slot in whole.slots.into_iter().filter(taken) {
            parts[part_of(slot.fingerprint)].insert(slot.fingerprint, slot.cell);
        }
        parts
    }

    /// Adds an eighth more slots.
    pub(crate) fn grow(&mut self) {
        self.resize(self.larger());
    }

    /// Takes out the state at an index, and moves back the states that it had pushed.
    pub(crate) fn remove(&mut self, index: usize) -> Removed {
        let removed = self.take_out(index);
        self.shrink_if_sparse();
        removed
    }

    fn take_out(&mut self, index: usize) -> Removed {
        let mut end = index + 1;
        while let Some(slot) = self.slots.get(end)
            && !slot.is_empty()
            && self.home(slot.fingerprint) < end
        {
            end += 1;
        }
        let heap = self.slots[index].cell.heap_bytes();
        self.slots[index..end].rotate_left(1);
        self.slots[end - 1] = Slot::empty();
        self.taken -= 1;
        Removed { states: 1, heap }
    }

    /// Moves the hand over up to `slots` slots, at most to the end, and removes expired states
    /// there. Returns the removed load and the number of examined slots.
    pub(crate) fn sweep(
        &mut self,
        slots: usize,
        mut expires_in: impl FnMut(&C) -> u64,
    ) -> (Removed, usize) {
        let (mut removed, mut looked) = (Removed::default(), 0);
        if self.hand >= self.slots.len() {
            self.hand = 0;
        }
        // Each state moves back once, regardless of how many before it are removed.
        let (mut index, mut free) = (self.hand, self.hand);
        while looked < slots && index < self.slots.len() {
            looked += 1;
            let slot = &mut self.slots[index];
            if slot.is_empty() {
                free = index + 1;
            } else if expires_in(&slot.cell) == 0 {
                removed += Removed { states: 1, heap: slot.cell.heap_bytes() };
                *slot = Slot::empty();
            } else {
                free = self.move_back(index, free) + 1;
            }
            index += 1;
        }
        self.hand = index;
        // States after the hand move back as well, and the hand with them.
        while free < index && self.slots.get(index).is_some_and(|slot| !slot.is_empty()) {
            let place = self.move_back(index, free);
            self.hand = self.hand.min(place);
            free = place + 1;
            index += 1;
        }
        self.taken -= removed.states;
        if removed.states > 0 {
            self.shrink_if_sparse();
        }
        (removed, looked)
    }

    /// Moves a state back to the first free slot, or to its home if that comes later. Returns its
    /// new index.
    fn move_back(&mut self, index: usize, free: usize) -> usize {
        let place = self.home(self.slots[index].fingerprint).max(free);
        if place < index {
            self.slots.swap(place, index);
        }
        place
    }

    /// Returns whether the hand has passed the last slot.
    pub(crate) fn is_swept(&self) -> bool {
        self.hand >= self.slots.len()
    }

    /// Removes every expired state, and releases unused memory.
    pub(crate) fn purge(&mut self, expires_in: impl FnMut(&C) -> u64) -> Removed {
        self.hand = 0;
        let (removed, _) = self.sweep(usize::MAX, expires_in);
        self.give_back();
        removed
    }

    /// Moves the hand until it has seen `sample` states, or a fresh one, or at least one and a run
    /// of empty slots. Returns the state of the smallest worth, except for those of `spare`.
    pub(crate) fn candidate(
        &mut self,
        sample: usize,
        spare: &[Fingerprint],
        mut worth: impl FnMut(&C) -> Worth,
    ) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut left = sample;
        for seen in 0..self.slots.len() {
            if best.is_some() && seen >= sample.saturating_mul(SLOTS_PER_STATE) {
                break;
            }
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let index = self.hand;
            let slot = &self.slots[index];
            self.hand += 1;
            if slot.is_empty() || spare.contains(&slot.fingerprint) {
                continue;
            }
            let worth = worth(&slot.cell);
            if best.is_none_or(|best| worth < best.worth) {
                best = Some(Candidate { index, worth });
            }
            left -= 1;
            if worth.is_fresh() || left == 0 {
                break;
            }
        }
        best
    }

    /// Maximum bytes of a state without its heap memory. A shard is always at least 5/8 full, not
    /// counting [`SPARE`] slots.
    pub(crate) const BYTES_PER_STATE: usize = size_of::<Slot<C>>() * 8 / 5;

    /// Returns the bytes of the shard, including the heap memory of its cells.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let outside: usize = self.slots.iter().map(|slot| slot.cell.heap_bytes()).sum();
        self.slots.len() * size_of::<Slot<C>>() + outside
    }

    /// Returns the home slot of a fingerprint.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
    fn home(&self, fingerprint: Fingerprint) -> usize {
        ((u128::from(fingerprint.high) * u128::from(self.homes)) >> 64) as usize
    }

    /// Returns a size one eighth larger, so that at least nearly three quarters of the slots are
    /// taken between two growths.
    fn larger(&self) -> usize {
        (self.slots.len() + self.slots.len() / 8).max(self.slots.len() + FIRST)
    }

    /// Releases memory when much of it is unused. A quarter of the slots must become free first, so
    /// the cost for each removal is low.
    fn shrink_if_sparse(&mut self) {
        if self.slots.len() > FEW && self.taken * 8 < self.slots.len() * 5 {
            self.resize(self.enough());
        }
    }

    /// Releases all unused memory.
    pub(crate) fn give_back(&mut self) {
        let enough = if self.taken == 0 { 0 } else { self.enough() };
        if self.taken * 2 < self.slots.len() && enough < self.slots.len() {
            self.resize(enough);
        }
    }

    const fn enough(&self) -> usize {
        enough_for(self.taken)
    }

    /// Adds slots at the end that are home to no fingerprint, because the existing ones are taken.
    /// Returns the first new index.
    #[cold]
    fn lengthen(&mut self) -> usize {
        let end = self.slots.len();
        let more = end.clamp(1, NOBODYS);
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        slots.reserve_exact(more);
        slots.extend((0..more).map(|_| Slot::empty()));
        self.slots = slots.into_boxed_slice();
        end
    }

    fn resize(&mut self, slots: usize) {
        let nobodys = (slots / 8).min(NOBODYS);
        self.homes = (slots - nobodys) as u64;
        let old = std::mem::take(&mut self.slots);
        let mut new = Vec::with_capacity(slots);
        // Keep the hand before the states that it has not seen.
        let mut hand = None;
        for (index, slot) in old.into_iter().enumerate().filter(|(_, slot)| !slot.is_empty()) {
            let home = self.home(slot.fingerprint);
            while new.len() < home {
                new.push(Slot::empty());
            }
            if index >= self.hand {
                hand.get_or_insert(new.len());
            }
            new.push(slot);
        }
        while new.len() < slots {
            new.push(Slot::empty());
        }
        // If more slots than expected were pushed past the end, this releases the excess memory.
        self.slots = new.into_boxed_slice();
        self.hand = hand.unwrap_or(self.slots.len());
    }
}

/// Returns the slots for a shard that is about to receive `states` states.
const fn enough_for(states: usize) -> usize {
    states + states / 4 + SPARE
}

/// Number of slots of a shard with its first state.
const FIRST: usize = 4;
/// Minimum number of free slots after a shard has released memory.
const SPARE: usize = 8;
/// Number of slots below which a shard doesn't shrink.
const FEW: usize = 32;
/// Number of slots at the end that are home to no fingerprint, unless they overflow.
const NOBODYS: usize = 16;
/// Maximum number of slots to examine for each sampled state. Most slots are taken, except in a new
/// shard.
const SLOTS_PER_STATE: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use sluicegate_core::kernel::window::{FixedWindow, State};

    use super::*;
    use crate::cell::{BucketCell, LogCell, PlainCell};
    use crate::scales::Tag;

    type Plain = PlainCell<FixedWindow>;

    fn used(cell: &Plain) -> u64 {
        cell.state().used
    }

    #[test]
    fn a_bucket_takes_32_bytes_and_never_crosses_a_cache_line() {
        assert_eq!((size_of::<Slot<BucketCell>>(), align_of::<Slot<BucketCell>>()), (32, 32));
        assert_eq!(size_of::<Slot<Plain>>(), 40);
        assert_eq!(size_of::<Slot<LogCell>>(), 64);
    }

    fn state(used: u64) -> Plain {
        Plain::new(State { newest: 0, start: 0, used }, Tag::NONE)
    }

    fn check(shard: &Shard<Plain>, model: &BTreeMap<Fingerprint, u64>) {
        let kept: Vec<_> = shard
            .slots
            .iter()
            .filter(|slot| !slot.is_empty())
            .map(|slot| (slot.fingerprint, used(&slot.cell)))
            .collect();
        assert!(kept.iter().copied().eq(model.iter().map(|(key, used)| (*key, *used))));
        assert_eq!(shard.len(), model.len());
        let few = (FEW + NOBODYS) * size_of::<Slot<Plain>>();
        let counted = shard.len() * Shard::<Plain>::BYTES_PER_STATE;
        assert!(shard.bytes() <= counted + few, "{} for {counted} counted", shard.bytes());
        for (fingerprint, expected) in model {
            let index = shard.find(*fingerprint).expect("what was put in is found");
            assert_eq!(used(shard.cell(index)), *expected);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(Fingerprint, u64),
        Take(Fingerprint),
        Sweep(usize, u64),
        Purge(u64),
    }

    fn fingerprints() -> impl Strategy<Value = Fingerprint> {
        // Crowds: many share their upper bits, some the whole high half.
        prop_oneof![
            (0..40_u64, 0..3_u64).prop_map(|(high, low)| Fingerprint { high, low }),
            (0..20_u64, 0..3_u64)
                .prop_map(|(high, low)| Fingerprint { high: u64::MAX - 1 - high, low }),
            (any::<u64>(), 0..2_u64)
                .prop_map(|(high, low)| Fingerprint { high: high.min(u64::MAX - 1), low }),
        ]
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (fingerprints(), 0..100_u64).prop_map(|(key, used)| Step::Put(key, used)),
            3 => fingerprints().prop_map(Step::Take),
            1 => (0..20_usize, 0..100_u64).prop_map(|(slots, below)| Step::Sweep(slots, below)),
            1 => (0..20_u64).prop_map(Step::Purge),
        ]
    }

    proptest! {
        #[test]
        fn a_shard_keeps_what_an_ordered_map_keeps(steps in prop::collection::vec(steps(), 1..400)) {
            let mut shard = Shard::default();
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Put(key, used) => {
                        match shard.find(key) {
                            Ok(index) => *shard.cell_mut(index) = state(used),
                            Err(_) => shard.insert(key, state(used)),
                        }
                        model.insert(key, used);
                    }
                    Step::Take(key) => {
                        let found = shard.find(key);
                        prop_assert_eq!(found.is_ok(), model.remove(&key).is_some());
                        if let Ok(index) = found {
                            shard.remove(index);
                        }
                    }
                    Step::Sweep(slots, below) => {
                        let mut gone = Vec::new();
                        let judge = |cell: &Plain| {
                            if used(cell) < below { gone.push(used(cell)); 0 } else { 1 }
                        };
                        let (removed, looked) = shard.sweep(slots, judge);
                        prop_assert_eq!(removed, Removed { states: gone.len(), heap: 0 });
                        prop_assert!(looked <= slots);
                        model.retain(|key, _| shard.find(*key).is_ok());
                    }
                    Step::Purge(below) => {
                        shard.purge(|cell| u64::from(used(cell) >= below));
                        model.retain(|_, used| *used >= below);
                    }
                }
                check(&shard, &model);
            }
        }
    }

    #[test]
    fn a_hand_goes_round_and_prefers_what_is_fresh() {
        let mut shard = Shard::default();
        for key in 0..100_u64 {
            shard.insert(Fingerprint { high: key << 57, low: key }, state(key + 1));
        }
        let worth = |cell: &Plain, expires_in| Worth { used: used(cell), expires_in };
        let best = shard.candidate(16, &[], |cell| worth(cell, 1)).unwrap();
        assert_eq!(best.worth.used, 1);
        let fresh = (0..20).find_map(|_| {
            let judge = |cell: &Plain| match used(cell) {
                70 => Worth { used: 0, expires_in: 0 },
                _ => worth(cell, 1),
            };
            shard.candidate(16, &[], judge).filter(|it| it.worth.is_fresh())
        });
        assert_eq!(used(shard.cell(fresh.unwrap().index)), 70);
    }

    /// If the hand kept its relative position, it would see slots that it has already emptied.
    #[test]
    fn a_hand_looks_at_each_slot_once_though_its_shard_shrinks() {
        let mut shard = Shard::default();
        for key in 0..4_000_u64 {
            shard.insert(Fingerprint { high: key << 52, low: key }, state(1));
        }
        shard.hand = 0;
        let (slots, mut all) = (shard.slots.len(), 0);
        while !shard.is_swept() {
            let (removed, looked) = shard.sweep(10, |_| 0);
            assert!(removed.states <= looked && looked <= 10);
            all += looked;
        }
        assert_eq!(shard.len(), 0, "none is passed over");
        assert!(all <= slots, "{all} looks at {slots} slots");
    }

    #[test]
    fn seven_tenths_are_taken_however_large_it_grows() {
        let mut shard = Shard::default();
        let mut key = 0_u64;
        for count in 1..20_000_usize {
            key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
            shard.insert(Fingerprint { high: key.min(u64::MAX - 1), low: 0 }, state(1));
            if count > 100 {
                assert!(
                    shard.slots.len() * 2 < count * 3,
                    "{} slots for {count}",
                    shard.slots.len()
                );
            }
        }
    }
}
