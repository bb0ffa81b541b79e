//! Records in the order of their ends, with lookup by id.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use smallvec::SmallVec;

use crate::hold::HoldId;
use crate::limit::Identity;

use super::HoldRecord;

/// Records by end and by id. Most subjects have 16 or fewer records, which are stored as one array.
/// More are stored as a tree, with a table of their ends.
#[derive(Clone, Debug)]
pub(super) enum Records {
    /// Up to [`FEW`] records, in the order in which they end.
    Few(Few),
    Many(Box<Many>),
}

type Few = SmallVec<[(HoldId, HoldRecord); FIRST]>;

#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    ends: HashMap<HoldId, u64>,
    records: BTreeMap<(u64, HoldId), HoldRecord>,
    /// The held units of each policy that haven't been settled.
    units: SmallVec<[(Identity, u64); 2]>,
}

/// The maximum number of records in the array, which is searched linearly.
const FEW: usize = 16;
/// The number of records that need no heap memory.
const FIRST: usize = 3;
/// The maximum heap size of a record in the tree. The tree's nodes are at least half full, and the
/// table is at least seven sixteenths full.
const ONE_OF_MANY: usize = 2 * (size_of::<((u64, HoldId), HoldRecord)>() + size_of::<usize>())
    + 16 * (size_of::<(HoldId, u64)>() + 1) / 7;
/// The size of a record in the array.
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

    /// Adds a record with an id that no other record has.
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

    /// Removes the first record if it has ended.
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

    /// Subtracts the units of a record in the tree.
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

    /// Returns the held units of a policy that haven't been settled.
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

    /// Returns all records, in the order in which they end.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (HoldId, &HoldRecord)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(&many.records)),
        };
        let few = few.into_iter().flatten().map(|(id, record)| (*id, record));
        few.chain(many.into_iter().flatten().map(|((_, id), record)| (*id, record)))
    }

    /// Returns the records after a position in that order.
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

    /// Returns the size on the heap in bytes, without the records' own data.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Few(few) if !few.spilled() => 0,
            Self::Few(few) => few.capacity() * ONE_OF_FEW,
            Self::Many(many) => size_of::<Many>() + many.records.len() * ONE_OF_MANY,
        }
    }

    /// Returns the maximum number of bytes that another record adds to [`Records::heap_bytes`].
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

/// Removes a record from the array, and moves an array of fewer than 3 records off the heap.
///
/// One more record then still fits inline. Lookups on the heap cost more than this move. A subject
/// that exceeds 3 records again pays for the move again.
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
        /// Compares with a list that is sorted each time.
        #[test]
        fn records_are_found_by_id_and_in_the_order_of_their_ends(
            steps in prop::collection::vec((any::<bool>(), 0_u8..48, 0_u64..40), 0..200),
        ) {
            let (mut records, mut list) = (Records::default(), Vec::new());
            for (adds, number, until) in steps {
                let id = HoldId::from_bytes([number; 16]);
                let known = list.iter().position(|(_, other)| *other == id);
                // A clone has no spare capacity.
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
