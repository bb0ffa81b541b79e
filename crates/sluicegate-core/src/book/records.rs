//! Records in the order in which they end, each found by its id.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use smallvec::SmallVec;

use crate::hold::HoldId;
use crate::limit::Identity;

use super::HoldRecord;

/// Records by end and by id. A few are one piece of memory, since most subjects hold few at a time; more
/// are a tree, and a table of when each ends.
#[derive(Clone, Debug)]
pub(super) enum Records {
    /// In the order in which they end.
    Few(Few),
    Many(Box<Many>),
}

type Few = SmallVec<[(HoldId, HoldRecord); FIRST]>;

#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    ends: HashMap<HoldId, u64>,
    records: BTreeMap<(u64, HoldId), HoldRecord>,
    /// The units that are held of each policy, and were not settled.
    units: SmallVec<[(Identity, u64); 2]>,
}

/// The most that are looked through one by one.
const FEW: usize = 16;
/// How many of them take nothing on the heap.
const FIRST: usize = 3;
/// What one of many takes on the heap at most: a place in the tree, whose nodes are half full at least,
/// and one in the table, which is seven sixteenths full at least.
const ONE_OF_MANY: usize = 2 * (size_of::<((u64, HoldId), HoldRecord)>() + size_of::<usize>())
    + 16 * (size_of::<(HoldId, u64)>() + 1) / 7;
/// One of few.
const ONE_OF_FEW: usize = size_of::<(HoldId, HoldRecord)>();

impl Records {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.records.len(),
        }
    }

    pub(super) fn get(&self, id: HoldId) -> Option<&HoldRecord> {
        match self {
            Self::Few(few) => few.iter().find(|(other, _)| *other == id).map(|(_, record)| record),
            Self::Many(many) => many.records.get(&(*many.ends.get(&id)?, id)),
        }
    }

    /// Adds a record whose id no other one has.
    pub(super) fn add(&mut self, id: HoldId, record: HoldRecord) {
        if let Self::Few(few) = self
            && few.len() == FEW
        {
            let mut many = Many::default();
            few.drain(..).for_each(|(id, record)| many.add(id, record));
            *self = Self::Many(Box::new(many));
        }
        match self {
            Self::Few(few) => {
                if few.len() == few.capacity() {
                    few.reserve_exact(few.len().min(FEW - few.len()));
                }
                let end = (record.until, id);
                let place = few.partition_point(|(id, record)| (record.until, *id) < end);
                few.insert(place, (id, record));
            }
            Self::Many(many) => many.add(id, record),
        }
    }

    pub(super) fn remove(&mut self, id: HoldId) -> Option<HoldRecord> {
        match self {
            Self::Few(few) => {
                let place = few.iter().position(|(other, _)| *other == id)?;
                Some(take(few, place))
            }
            Self::Many(many) => {
                let record = many.records.remove(&(many.ends.remove(&id)?, id))?;
                self.taken(&record);
                Some(record)
            }
        }
    }

    /// Removes the first one if it has ended.
    pub(super) fn pop_ended(&mut self, now: u64) -> Option<HoldRecord> {
        match self {
            Self::Few(few) => {
                let has_ended = few.first().is_some_and(|(_, record)| record.until <= now);
                has_ended.then(|| take(few, 0))
            }
            Self::Many(many) => {
                let first = many.records.first_entry().filter(|first| first.key().0 <= now)?;
                let ((_, id), record) = first.remove_entry();
                many.ends.remove(&id);
                self.taken(&record);
                Some(record)
            }
        }
    }

    /// Counts out one of many.
    fn taken(&mut self, record: &HoldRecord) {
        let Self::Many(many) = self else { return };
        if many.records.is_empty() {
            *self = Self::default();
            return;
        }
        for (identity, units) in record.units() {
            if let Some((_, all)) = many.units.iter_mut().find(|(other, _)| *other == identity) {
                *all -= units;
            }
        }
        many.units.retain(|(_, units)| *units > 0);
    }

    /// The units that are held of a policy, and were not settled.
    pub(super) fn units_of(&self, identity: Identity) -> u64 {
        match self {
            Self::Few(few) => {
                let entries = few.iter().filter_map(|(_, record)| record.units_of(identity));
                entries.map(|entry| entry.units).sum()
            }
            Self::Many(many) => {
                let all = many.units.iter().find(|(other, _)| *other == identity);
                all.map_or(0, |(_, units)| *units)
            }
        }
    }

    /// All of them, in the order in which they end.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (HoldId, &HoldRecord)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(&many.records)),
        };
        let few = few.into_iter().flatten().map(|(id, record)| (*id, record));
        few.chain(many.into_iter().flatten().map(|((_, id), record)| (*id, record)))
    }

    /// Those that come after a place in that order.
    pub(super) fn after(
        &self,
        place: (u64, HoldId),
    ) -> impl Iterator<Item = (HoldId, &HoldRecord)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(id, record)| (*id, record));
        let few = few.filter(move |(id, record)| (record.until, *id) > place);
        let later = (Bound::Excluded(place), Bound::Unbounded);
        let many = many.into_iter().flat_map(move |many| many.records.range(later));
        few.chain(many.map(|((_, id), record)| (*id, record)))
    }

    /// The bytes that they take on the heap, besides what each has there itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Few(few) if !few.spilled() => 0,
            Self::Few(few) => few.capacity() * ONE_OF_FEW,
            Self::Many(many) => size_of::<Many>() + many.records.len() * ONE_OF_MANY,
        }
    }

    /// The bytes that another one adds to [`Records::heap_bytes`] at most.
    pub(super) fn growth_bytes(&self) -> usize {
        match self {
            Self::Few(few) if few.len() < few.capacity() => 0,
            Self::Few(few) if !few.spilled() => 2 * few.len() * ONE_OF_FEW,
            Self::Few(few) if few.len() < FEW => few.len() * ONE_OF_FEW,
            Self::Few(few) => size_of::<Many>() + (few.len() + 1) * ONE_OF_MANY,
            Self::Many(_) => ONE_OF_MANY,
        }
    }
}

/// Takes one out. What is left comes back from the heap when one more has room without it: to look for it
/// there takes longer than what it costs to move it, which a third one at a time makes it pay again.
fn take(few: &mut Few, place: usize) -> HoldRecord {
    let (_, record) = few.remove(place);
    if few.len() < FIRST {
        few.shrink_to_fit();
    }
    record
}

impl Many {
    fn add(&mut self, id: HoldId, record: HoldRecord) {
        for (identity, units) in record.units() {
            match self.units.iter_mut().find(|(other, _)| *other == identity) {
                Some((_, all)) => *all += units,
                None => self.units.push((identity, units)),
            }
        }
        self.ends.insert(id, record.until);
        self.records.insert((record.until, id), record);
    }
}

impl Default for Records {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Records {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::RecordContent;
    use super::*;

    fn record(until: u64) -> HoldRecord {
        HoldRecord { until, content: RecordContent::Settled(Vec::new()) }
    }

    proptest! {
        /// As a list that is sorted anew each time.
        #[test]
        fn records_are_found_by_id_and_in_the_order_of_their_ends(
            steps in prop::collection::vec((any::<bool>(), 0_u8..48, 0_u64..40), 0..200),
        ) {
            let (mut records, mut list) = (Records::default(), Vec::new());
            for (adds, number, until) in steps {
                let id = HoldId::from_bytes([number; 16]);
                let known = list.iter().position(|(_, other)| *other == id);
                // A clone has no room to spare.
                records = if until % 3 == 0 { records.clone() } else { records };
                let (bytes, growth) = (records.heap_bytes(), records.growth_bytes());
                if adds && known.is_none() {
                    records.add(id, record(until));
                    list.push((until, id));
                    list.sort_unstable();
                    prop_assert!(records.heap_bytes() <= bytes + growth);
                } else if adds {
                    let first = list.first().copied().filter(|(end, _)| *end <= until);
                    let popped = records.pop_ended(until).map(|record| record.until);
                    prop_assert_eq!(popped, first.map(|(end, _)| end));
                    list.drain(..usize::from(first.is_some()));
                } else {
                    let removed = records.remove(id).map(|record| (record.until, id));
                    prop_assert_eq!(removed, known.map(|place| list.remove(place)));
                    prop_assert!(records.heap_bytes() <= bytes);
                }
                let ends = |(id, record): (HoldId, &HoldRecord)| (record.until, id);
                prop_assert_eq!(records.iter().map(ends).collect::<Vec<_>>(), list.clone());
                let back: Vec<_> = records.iter().rev().map(ends).collect();
                prop_assert!(back.iter().eq(list.iter().rev()));
                let after = records.after((until, id)).map(ends);
                prop_assert!(after.eq(list.iter().copied().filter(|other| *other > (until, id))));
                prop_assert_eq!(records.len(), list.len());
                let found = records.get(id).map(|record| (record.until, id));
                prop_assert_eq!(found, list.iter().copied().find(|(_, other)| *other == id));
            }
        }
    }
}
