//! The entries of a log. A single entry needs no heap memory.

use std::collections::VecDeque;
use std::ops::{Index, Range};

use super::Entry;

/// The entries of a log, oldest first.
///
/// A single entry is stored inline. Most keys of a flood have no other entry, and freeing the
/// memory of a million keys would delay another request by milliseconds.
///
/// ```
/// use sluicegate_core::kernel::log::{Entries, Entry};
///
/// let mut entries = Entries::default();
/// entries.push_back(Entry { stamp: 5, total: 1 });
/// assert_eq!(entries.heap_bytes(), 0);
/// entries.push_back(Entry { stamp: 7, total: 3 });
/// assert_eq!(entries.iter().map(|entry| entry.total).sum::<u64>(), 4);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Entries(Inner);

#[derive(Clone, Debug, Default)]
enum Inner {
    #[default]
    None,
    One(Entry),
    /// Several entries. They never move back inline, because each further entry would then
    /// allocate.
    Many(VecDeque<Entry>),
}

impl Entries {
    /// Creates an empty list with capacity for that many entries.
    #[must_use]
    pub fn with_capacity(entries: usize) -> Self {
        if entries <= 1 {
            Self::default()
        } else {
            Self(Inner::Many(VecDeque::with_capacity(entries)))
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Inner::None => 0,
            Inner::One(_) => 1,
            Inner::Many(entries) => entries.len(),
        }
    }

    /// Returns `true` if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the oldest entry.
    #[must_use]
    pub fn front(&self) -> Option<&Entry> {
        match &self.0 {
            Inner::None => None,
            Inner::One(entry) => Some(entry),
            Inner::Many(entries) => entries.front(),
        }
    }

    /// Returns the newest entry.
    #[must_use]
    pub fn back(&self) -> Option<&Entry> {
        match &self.0 {
            Inner::None => None,
            Inner::One(entry) => Some(entry),
            Inner::Many(entries) => entries.back(),
        }
    }

    /// Returns the newest entry for modification.
    pub fn back_mut(&mut self) -> Option<&mut Entry> {
        match &mut self.0 {
            Inner::None => None,
            Inner::One(entry) => Some(entry),
            Inner::Many(entries) => entries.back_mut(),
        }
    }

    /// Returns all entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        let (older, newer) = self.as_slices();
        older.iter().chain(newer)
    }

    /// Returns all entries from an index on, for modification.
    pub fn iter_mut_from(&mut self, index: usize) -> impl Iterator<Item = &mut Entry> {
        let (older, newer) = match &mut self.0 {
            Inner::None => Default::default(),
            Inner::One(entry) => (std::slice::from_mut(entry), Default::default()),
            Inner::Many(entries) => entries.as_mut_slices(),
        };
        older.iter_mut().chain(newer).skip(index)
    }

    /// Returns the number of leading entries for which a predicate holds.
    ///
    /// It must hold for none after the first entry for which it doesn't hold.
    pub fn partition_point(&self, holds: impl FnMut(&Entry) -> bool) -> usize {
        match &self.0 {
            Inner::None => 0,
            Inner::One(entry) => std::slice::from_ref(entry).partition_point(holds),
            Inner::Many(entries) => entries.partition_point(holds),
        }
    }

    /// Adds the newest entry. A full list grows by a quarter: at least 4 and at most 512 entries.
    ///
    /// This leaves little memory unused, takes little time, and never needs the memory of many
    /// other keys.
    pub fn push_back(&mut self, entry: Entry) {
        match &mut self.0 {
            Inner::None => self.0 = Inner::One(entry),
            Inner::One(first) => {
                let mut entries = VecDeque::with_capacity(FIRST_OUTSIDE);
                entries.extend([*first, entry]);
                self.0 = Inner::Many(entries);
            }
            Inner::Many(entries) => {
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(growth(entries.len()));
                }
                entries.push_back(entry);
            }
        }
    }

    /// Removes a range of entries.
    pub fn remove(&mut self, range: Range<usize>) {
        match &mut self.0 {
            Inner::None => {}
            Inner::One(_) => {
                if range.contains(&0) {
                    self.0 = Inner::None;
                }
            }
            Inner::Many(entries) => drop(entries.drain(range)),
        }
    }

    /// Frees memory beyond that of `entries` entries.
    pub fn shrink_to(&mut self, entries: usize) {
        if let Inner::Many(all) = &mut self.0 {
            all.shrink_to(entries);
        }
    }

    /// Returns the number of entries for which there is heap memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match &self.0 {
            Inner::None | Inner::One(_) => 0,
            Inner::Many(entries) => entries.capacity(),
        }
    }

    /// Returns the size of the heap memory in bytes, including spare capacity.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<Entry>()
    }

    /// Returns the number of bytes that another entry adds to [`Entries::heap_bytes`].
    #[must_use]
    pub fn growth_bytes(&self) -> usize {
        let more = match &self.0 {
            Inner::None => 0,
            Inner::One(_) => FIRST_OUTSIDE,
            Inner::Many(entries) if entries.len() < entries.capacity() => 0,
            Inner::Many(entries) => growth(entries.len()),
        };
        more * size_of::<Entry>()
    }

    fn as_slices(&self) -> (&[Entry], &[Entry]) {
        match &self.0 {
            Inner::None => Default::default(),
            Inner::One(entry) => (std::slice::from_ref(entry), &[]),
            Inner::Many(entries) => entries.as_slices(),
        }
    }
}

impl Index<usize> for Entries {
    type Output = Entry;

    fn index(&self, index: usize) -> &Entry {
        match &self.0 {
            Inner::None => &[][index],
            Inner::One(entry) => &std::slice::from_ref(entry)[index],
            Inner::Many(entries) => &entries[index],
        }
    }
}

impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Entries {}

impl FromIterator<Entry> for Entries {
    fn from_iter<T: IntoIterator<Item = Entry>>(entries: T) -> Self {
        let entries = entries.into_iter();
        let mut all = Self::with_capacity(entries.size_hint().0);
        entries.for_each(|entry| all.push_back(entry));
        all
    }
}

/// The capacity of the list as soon as it has two entries. Allocators keep smaller blocks for
/// reuse, and merge all of them when a large block is requested.
const FIRST_OUTSIDE: usize = 8;

fn growth(entries: usize) -> usize {
    (entries / 4).clamp(4, 512)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Remove(usize, usize),
        Shrink,
        Add(usize),
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => Just(Step::Push),
            2 => (0..20_usize, 0..20_usize).prop_map(|(from, to)| Step::Remove(from, to)),
            1 => Just(Step::Shrink),
            1 => (0..20_usize).prop_map(Step::Add),
        ]
    }

    proptest! {
        #[test]
        fn they_are_what_a_queue_of_them_is(steps in prop::collection::vec(steps(), 1..60)) {
            let (mut entries, mut model) = (Entries::default(), VecDeque::new());
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Push => {
                        let entry = Entry { stamp: number, total: number };
                        let foreseen = entries.heap_bytes() + entries.growth_bytes();
                        entries.push_back(entry);
                        prop_assert_eq!(entries.heap_bytes(), foreseen);
                        model.push_back(entry);
                    }
                    Step::Remove(from, to) => {
                        let (from, to) = (from.min(model.len()), to.min(model.len()));
                        entries.remove(from..to.max(from));
                        model.drain(from..to.max(from));
                    }
                    Step::Shrink => entries.shrink_to(model.len()),
                    Step::Add(from) => {
                        entries.iter_mut_from(from).for_each(|entry| entry.total += 5);
                        model.iter_mut().skip(from).for_each(|entry| entry.total += 5);
                    }
                }
                prop_assert!(entries.iter().eq(&model));
                prop_assert_eq!(&entries, &model.iter().copied().collect::<Entries>());
                prop_assert_eq!(entries.len(), model.len());
                prop_assert_eq!((entries.front(), entries.back()), (model.front(), model.back()));
                let ends = (entries.clone().back_mut().copied(), model.back().copied());
                prop_assert_eq!(ends.0, ends.1);
                let early = |entry: &Entry| entry.stamp < 20;
                prop_assert_eq!(entries.partition_point(early), model.partition_point(early));
                prop_assert!((0..model.len()).all(|index| entries[index] == model[index]));
                prop_assert!(entries.len() <= entries.capacity().max(1));
            }
        }
    }
}
