//! The entries of a log, of which a single one needs no memory of its own.

use std::collections::VecDeque;
use std::ops::{Index, Range};

use super::Entry;

/// The entries of a log, oldest first.
///
/// A single one is kept in place: of the keys that a flood brings, most have no other, and to free
/// a piece of memory for each of a million keys costs somebody milliseconds.
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
    /// As many as there are: to keep few in place again would allocate for each that comes.
    Many(VecDeque<Entry>),
}

impl Entries {
    /// None yet, with room for so many.
    #[must_use]
    pub fn with_capacity(entries: usize) -> Self {
        if entries <= 1 {
            Self::default()
        } else {
            Self(Inner::Many(VecDeque::with_capacity(entries)))
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Inner::None => 0,
            Inner::One(_) => 1,
            Inner::Many(entries) => entries.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The oldest.
    #[must_use]
    pub fn front(&self) -> Option<&Entry> {
        match &self.0 {
            Inner::None => None,
            Inner::One(entry) => Some(entry),
            Inner::Many(entries) => entries.front(),
        }
    }

    /// The newest.
    #[must_use]
    pub fn back(&self) -> Option<&Entry> {
        match &self.0 {
            Inner::None => None,
            Inner::One(entry) => Some(entry),
            Inner::Many(entries) => entries.back(),
        }
    }

    /// The newest, to change it.
    pub fn back_mut(&mut self) -> Option<&mut Entry> {
        match &mut self.0 {
            Inner::None => None,
            Inner::One(entry) => Some(entry),
            Inner::Many(entries) => entries.back_mut(),
        }
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        let (older, newer) = self.as_slices();
        older.iter().chain(newer)
    }

    /// All from an index on, to change them.
    pub fn iter_mut_from(&mut self, index: usize) -> impl Iterator<Item = &mut Entry> {
        let (older, newer) = match &mut self.0 {
            Inner::None => Default::default(),
            Inner::One(entry) => (std::slice::from_mut(entry), Default::default()),
            Inner::Many(entries) => entries.as_mut_slices(),
        };
        older.iter_mut().chain(newer).skip(index)
    }

    /// How many of the oldest a predicate holds for, which holds for none after the first that it
    /// doesn't hold for.
    pub fn partition_point(&self, holds: impl FnMut(&Entry) -> bool) -> usize {
        match &self.0 {
            Inner::None => 0,
            Inner::One(entry) => std::slice::from_ref(entry).partition_point(holds),
            Inner::Many(entries) => entries.partition_point(holds),
        }
    }

    /// Adds the newest. Where there is no room it makes some: a quarter more, so that little is
    /// taken in vain, and never so much that it takes long or needs the room of many other keys.
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

    /// Takes some out.
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

    /// Gives memory back of which no more than so many entries need.
    pub fn shrink_to(&mut self, entries: usize) {
        if let Inner::Many(all) = &mut self.0 {
            all.shrink_to(entries);
        }
    }

    /// For how many there is memory outside.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match &self.0 {
            Inner::None | Inner::One(_) => 0,
            Inner::Many(entries) => entries.capacity(),
        }
    }

    /// The bytes that they take outside, with the room there is for more.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<Entry>()
    }

    /// The bytes that one more adds to [`Entries::heap_bytes`].
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

/// Entries that there is room for as soon as there are two. Allocators keep smaller pieces for the
/// next who wants one, and put all of them together when somebody wants a large one.
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
