//! The heaviest keys of a stream, in bounded memory.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The heaviest keys of a stream, by the Space-Saving algorithm of Metwally, Agrawal and El Abbadi (2005).
///
/// It counts a bounded number of keys. A key that isn't counted takes over the place and the count of the lightest one.
/// So a count is never too small, and too large by at most the stream's weight, divided by the number of places. Every key
/// that is heavier than that has a place.
#[derive(Debug)]
pub(super) struct SpaceSaving {
    places: usize,
    entries: Vec<Entry>,
    /// Places by key.
    table: HashTable<u32>,
    /// Places, the lightest first: each is at most as heavy as those at twice its index plus 1 and 2.
    heap: Vec<u32>,
    hasher: DefaultHashBuilder,
}

/// An upper bound on a key's weight, and how much of it may be of other keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Estimate {
    pub(super) count: u64,
    pub(super) at_most_over: u64,
}

#[derive(Debug)]
struct Entry {
    key: Vec<u8>,
    hash: u64,
    estimate: Estimate,
    /// Index in the heap.
    at: usize,
}

impl SpaceSaving {
    /// Returns a sketch of at most `places` keys. It allocates with the first ones.
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            entries: Vec::new(),
            table: HashTable::new(),
            heap: Vec::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Adds weight to a key.
    pub(super) fn add(&mut self, key: &[u8], weight: u64) {
        let hash = self.hasher.hash_one(key);
        let entries = &self.entries;
        let is_key = |place: &u32| get(entries, *place).is_some_and(|entry| entry.key == key);
        if let Some(&place) = self.table.find(hash, is_key) {
            if let Some(entry) = self.entries.get_mut(index(place)) {
                entry.estimate.count = entry.estimate.count.saturating_add(weight);
                let at = entry.at;
                self.sink(at);
            }
        } else if self.entries.len() < self.places {
            let place = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
            let at = self.heap.len();
            let estimate = Estimate { count: weight, at_most_over: 0 };
            self.entries.push(Entry { key: key.to_vec(), hash, estimate, at });
            self.heap.push(place);
            self.insert(hash, place);
            self.rise(at);
        } else {
            self.replace_lightest(key, hash, weight);
        }
    }

    /// Returns the keys that have a place, each with its estimate.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Estimate)> {
        self.entries.iter().map(|entry| (&*entry.key, entry.estimate))
    }

    /// Returns the estimate of a key.
    pub(super) fn estimate(&self, key: &[u8]) -> Estimate {
        let hash = self.hasher.hash_one(key);
        let is_key = |place: &u32| get(&self.entries, *place).is_some_and(|entry| entry.key == key);
        let place = self.table.find(hash, is_key);
        let known = place.and_then(|place| get(&self.entries, *place));
        known.map_or_else(|| self.absent(), |entry| entry.estimate)
    }

    /// Returns the estimate of every key without a place.
    fn absent(&self) -> Estimate {
        let lightest = self.heap.first().filter(|_| self.entries.len() == self.places);
        let lightest = lightest.and_then(|place| get(&self.entries, *place));
        let most = lightest.map_or(0, |entry| entry.estimate.count);
        Estimate { count: most, at_most_over: most }
    }

    /// Gives the place of the lightest key to another one.
    fn replace_lightest(&mut self, key: &[u8], hash: u64, weight: u64) {
        let Some(&place) = self.heap.first() else { return };
        let Some(entry) = self.entries.get_mut(index(place)) else { return };
        if let Ok(found) = self.table.find_entry(entry.hash, |other| *other == place) {
            found.remove();
        }
        entry.key.clear();
        entry.key.extend_from_slice(key);
        // The memory of a long key isn't kept for short ones.
        if entry.key.capacity() > 4 * key.len().max(32) {
            entry.key.shrink_to_fit();
        }
        entry.hash = hash;
        let before = entry.estimate.count;
        entry.estimate = Estimate { count: before.saturating_add(weight), at_most_over: before };
        self.insert(hash, place);
        self.sink(0);
    }

    fn insert(&mut self, hash: u64, place: u32) {
        let entries = &self.entries;
        let hash_of = |place: &u32| get(entries, *place).map_or(0, |entry| entry.hash);
        self.table.insert_unique(hash, place, hash_of);
    }

    fn count_at(&self, at: usize) -> Option<u64> {
        get(&self.entries, *self.heap.get(at)?).map(|entry| entry.estimate.count)
    }

    /// Moves a place that became heavier towards the end.
    fn sink(&mut self, mut at: usize) {
        loop {
            let [left, right] = [2 * at + 1, 2 * at + 2];
            let lighter = if self.count_at(right).is_some_and(|it| Some(it) < self.count_at(left)) {
                right
            } else {
                left
            };
            if self.count_at(lighter).is_none_or(|it| Some(it) >= self.count_at(at)) {
                return;
            }
            self.swap(at, lighter);
            at = lighter;
        }
    }

    /// Moves a new place towards the front.
    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.count_at(above) <= self.count_at(at) {
                return;
            }
            self.swap(at, above);
            at = above;
        }
    }

    fn swap(&mut self, one: usize, two: usize) {
        self.heap.swap(one, two);
        for at in [one, two] {
            let entry = self.heap.get(at).and_then(|place| self.entries.get_mut(index(*place)));
            if let Some(entry) = entry {
                entry.at = at;
            }
        }
    }
}

fn get(entries: &[Entry], place: u32) -> Option<&Entry> {
    entries.get(index(place))
}

/// Returns a place as an index: there are far fewer than 2^32.
fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Checks the bounds that the algorithm promises, against exact counts.
        #[test]
        fn a_count_is_never_too_small_and_its_error_is_known(
            places in 1_usize..20,
            stream in prop::collection::vec((0_u8..40, 1_u64..9), 0..400),
        ) {
            let mut sketch = SpaceSaving::new(places);
            let mut exact: HashMap<u8, u64> = HashMap::new();
            for (key, weight) in &stream {
                sketch.add(&[*key], *weight);
                *exact.entry(*key).or_default() += weight;
            }
            let whole: u64 = exact.values().sum();
            prop_assert!(sketch.iter().count() <= places);
            prop_assert_eq!(sketch.iter().count(), sketch.table.len());
            for key in 0..40 {
                let Estimate { count, at_most_over } = sketch.estimate(&[key]);
                let exact = exact.get(&key).copied().unwrap_or(0);
                prop_assert!(count >= exact && count - at_most_over <= exact);
                prop_assert!(at_most_over <= whole / u64::try_from(places).unwrap());
            }
        }
    }

    #[test]
    fn as_long_as_there_is_room_it_is_exact() {
        let mut sketch = SpaceSaving::new(3);
        for key in ["a", "b", "a", "c", "a"] {
            sketch.add(key.as_bytes(), 2);
        }
        assert_eq!(sketch.estimate(b"a"), Estimate { count: 6, at_most_over: 0 });
        assert_eq!(sketch.estimate(b"d"), Estimate { count: 2, at_most_over: 2 });
    }
}
