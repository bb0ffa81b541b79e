//! A shard: slots in one flat array, in the order of their fingerprints.
//!
//! The high half of a fingerprint says where its slot should be; a taken slot pushes what comes
//! after it to the right. Because home slots grow with fingerprints, the whole array is sorted
//! but for its gaps: a search stops at the first larger fingerprint, a removal closes its gap
//! without leaving a marker, and growing is one pass from left to right. The last few slots are
//! nobody's home, so that nothing has to wrap around.

use crate::cell::Cell;
use crate::fingerprint::Fingerprint;

/// One place for a state.
#[repr(C)]
struct Slot<C: Cell> {
    align: [C::Align; 0],
    fingerprint: Fingerprint,
    cell: C,
}

/// Some of a table's states.
pub(crate) struct Shard<C: Cell> {
    slots: Vec<Slot<C>>,
    /// How many slots are somebody's home.
    homes: u64,
    taken: usize,
    /// Where the search for states that may go continues.
    hand: usize,
}

/// A state that may have to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    /// µs until it equals a fresh key's.
    pub(crate) expires_in: u64,
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

impl<C: Cell> Default for Shard<C> {
    fn default() -> Self {
        Self { slots: Vec::new(), homes: 0, taken: 0, hand: 0 }
    }
}

impl<C: Cell> Shard<C> {
    /// Where a fingerprint is, or where it would have to be put.
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

    /// Reads something of where a fingerprint is likely to be, so that the processor fetches it.
    #[inline]
    pub(crate) fn glance(&self, fingerprint: Fingerprint) -> u64 {
        let home = self.home(fingerprint);
        // Most are pushed aside by less than a cache line, which holds two of the smallest slots.
        let near = [home, home + 2].map(|index| self.slots.get(index));
        near.into_iter().flatten().fold(0, |seen, slot| seen ^ slot.fingerprint.low)
    }

    /// The cell at an index that [`Shard::find`] found.
    #[inline]
    pub(crate) fn cell(&self, index: usize) -> &C {
        &self.slots[index].cell
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn cell_mut(&mut self, index: usize) -> &mut C {
        &mut self.slots[index].cell
    }

    /// The states there are.
    pub(crate) const fn len(&self) -> usize {
        self.taken
    }

    /// Whether one more state would make searches slow.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.taken + 1 > self.slots.len() - self.slots.len() / 8
    }

    /// Puts in a state whose fingerprint is not there yet, growing where there is no place.
    pub(crate) fn insert(&mut self, fingerprint: Fingerprint, cell: C) {
        if self.is_crowded() {
            self.resize(self.larger());
        }
        let index = self.find(fingerprint).unwrap_or_else(|index| index);
        let gap =
            self.slots[index..].iter().position(Slot::is_empty).map(|distance| index + distance);
        let gap = gap.unwrap_or_else(|| self.lengthen());
        self.slots[index..=gap].rotate_right(1);
        self.slots[index] = Slot { align: [], fingerprint, cell };
        self.taken += 1;
    }

    /// Takes out the state at an index; what it had pushed aside moves back.
    pub(crate) fn remove(&mut self, index: usize) {
        let mut end = index + 1;
        while let Some(slot) = self.slots.get(end)
            && !slot.is_empty()
            && self.home(slot.fingerprint) < end
        {
            end += 1;
        }
        self.slots[index..end].rotate_left(1);
        self.slots[end - 1] = Slot::empty();
        self.taken -= 1;
    }

    /// Moves the hand over some slots and removes the states there that may go. Gives how many.
    pub(crate) fn sweep(&mut self, slots: usize, mut expires_in: impl FnMut(&C) -> u64) -> usize {
        let before = self.taken;
        for _ in 0..slots.min(self.slots.len()) {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &self.slots[self.hand];
            if !slot.is_empty() && expires_in(&slot.cell) == 0 {
                self.remove(self.hand);
            } else {
                self.hand += 1;
            }
        }
        before - self.taken
    }

    /// Removes every state that may go, and gives memory back when most of it is unused.
    pub(crate) fn purge(&mut self, expires_in: impl FnMut(&C) -> u64) -> usize {
        self.hand = 0;
        // A removal makes the hand see the same slot twice.
        let removed = self.sweep_round(expires_in);
        let enough = if self.taken == 0 { 0 } else { self.taken + self.taken / 4 + SMALLEST };
        if self.taken * 2 < self.slots.len() && enough < self.slots.len() {
            self.resize(enough);
        }
        removed
    }

    fn sweep_round(&mut self, mut expires_in: impl FnMut(&C) -> u64) -> usize {
        let before = self.taken;
        while self.hand < self.slots.len() {
            let slot = &self.slots[self.hand];
            if !slot.is_empty() && expires_in(&slot.cell) == 0 {
                self.remove(self.hand);
            } else {
                self.hand += 1;
            }
        }
        before - self.taken
    }

    /// Moves the hand until it has seen `sample` states, or a state that may go, or one at least
    /// and a stretch of empty slots. Gives the one that is closest to fresh.
    pub(crate) fn candidate(
        &mut self,
        sample: usize,
        mut expires_in: impl FnMut(&C) -> u64,
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
            if slot.is_empty() {
                continue;
            }
            let expires_in = expires_in(&slot.cell);
            if best.is_none_or(|best| expires_in < best.expires_in) {
                best = Some(Candidate { index, expires_in });
            }
            left -= 1;
            if expires_in == 0 || left == 0 {
                break;
            }
        }
        best
    }

    /// Bytes taken, those that cells hold outside included.
    pub(crate) fn bytes(&self) -> usize {
        let outside: usize = self.slots.iter().map(|slot| slot.cell.heap_bytes()).sum();
        self.slots.capacity() * size_of::<Slot<C>>() + outside
    }

    /// Where a fingerprint should be.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
    fn home(&self, fingerprint: Fingerprint) -> usize {
        ((u128::from(fingerprint.high) * u128::from(self.homes)) >> 64) as usize
    }

    /// A fifth more, so that between two growths at least seven tenths of the slots are taken.
    fn larger(&self) -> usize {
        (self.slots.len() + self.slots.len() / 5).max(self.slots.len() + 4).max(SMALLEST)
    }

    /// Adds slots at the end that are nobody's home, as those there are all taken; gives the first.
    #[cold]
    fn lengthen(&mut self) -> usize {
        let end = self.slots.len();
        self.slots.reserve_exact(NOBODYS);
        self.slots.extend((0..NOBODYS).map(|_| Slot::empty()));
        end
    }

    fn resize(&mut self, slots: usize) {
        let nobodys = (slots / 8).min(NOBODYS);
        self.homes = (slots - nobodys) as u64;
        let old = std::mem::replace(&mut self.slots, Vec::with_capacity(slots));
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            let home = self.home(slot.fingerprint);
            while self.slots.len() < home {
                self.slots.push(Slot::empty());
            }
            self.slots.push(slot);
        }
        while self.slots.len() < slots {
            self.slots.push(Slot::empty());
        }
        if self.slots.capacity() > slots {
            // More than was foreseen are pushed beyond the end: no reason to hold twice the room.
            self.slots.shrink_to_fit();
        }
        self.hand = 0;
    }
}

/// The fewest slots of a shard that holds anything.
const SMALLEST: usize = 8;
/// The most slots at the end that are nobody's home, unless they overflow.
const NOBODYS: usize = 16;
/// How many slots are looked at for each state wanted: most are taken, but not in a new shard.
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
        assert_eq!(size_of::<Slot<LogCell>>(), 24);
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
        // Crowds: many share their upper bits, some all of the high half.
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
                        let removed = shard.sweep(slots, judge);
                        prop_assert_eq!(removed, gone.len());
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
        let best = shard.candidate(16, used).unwrap();
        assert_eq!(best.expires_in, 1);
        let fresh = (0..20).find_map(|_| {
            shard
                .candidate(16, |cell| if used(cell) == 70 { 0 } else { used(cell) })
                .filter(|it| it.expires_in == 0)
        });
        assert_eq!(used(shard.cell(fresh.unwrap().index)), 70);
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
