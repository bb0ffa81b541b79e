//! Finds the most specific entry of a list for a key.

use std::collections::HashMap;

use sluicegate_http::{Cidr, KeyMatcher, Pattern};

/// Entries with a value each, to find the most specific one for a key: the key itself before a
/// range of addresses before a prefix, and a longer range or prefix before a shorter one. The order
/// of the entries doesn't matter.
#[derive(Clone, Debug)]
pub(super) struct KeyIndex<T> {
    exact: HashMap<Box<[u8]>, T>,
    ranges: Nested<Cidr, T>,
    prefixes: Nested<Box<[u8]>, T>,
}

/// Sorted entries, each two either disjoint or one inside the other.
#[derive(Clone, Debug)]
struct Nested<P, T>(Box<[NestedEntry<P, T>]>);

#[derive(Clone, Debug)]
struct NestedEntry<P, T> {
    pattern: P,
    value: T,
    /// The index of the smallest entry around this one.
    parent: Option<usize>,
}

impl<T: Copy> KeyIndex<T> {
    /// If an entry has several values, the first one counts.
    pub(super) fn new<'m>(entries: impl IntoIterator<Item = (&'m KeyMatcher, T)>) -> Self {
        let (mut exact, mut ranges, mut prefixes) = (HashMap::new(), Vec::new(), Vec::new());
        for (matcher, value) in entries {
            match matcher.pattern() {
                Pattern::Exact(key) => {
                    exact.entry(key.into()).or_insert(value);
                }
                Pattern::Range(range) => ranges.push((range, value)),
                Pattern::Prefix(prefix) => prefixes.push((Box::<[u8]>::from(prefix), value)),
                // Both crates have the same version.
                _ => {}
            }
        }
        Self {
            exact,
            ranges: Nested::new(ranges, |outer, inner| outer.covers(*inner)),
            prefixes: Nested::new(prefixes, |outer, inner| inner.starts_with(outer)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.ranges.0.is_empty() && self.prefixes.0.is_empty()
    }

    /// Whether the network of a key matters.
    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.0.is_empty()
    }

    pub(super) fn find(&self, key: &[u8], network: Option<Cidr>) -> Option<T> {
        if let Some(value) = self.exact.get(key) {
            return Some(*value);
        }
        let range = network.and_then(|network| {
            self.ranges.find(|range| *range <= network, |range| range.covers(network))
        });
        range.or_else(|| {
            self.prefixes.find(|prefix| **prefix <= *key, |prefix| key.starts_with(prefix))
        })
    }
}

impl<P: Ord, T: Copy> Nested<P, T> {
    fn new(mut entries: Vec<(P, T)>, holds: impl Fn(&P, &P) -> bool) -> Self {
        // Stable, so the first of equal entries stays first. Outer entries sort before inner ones.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.dedup_by(|(later, _), (earlier, _)| later == earlier);
        let mut places: Vec<NestedEntry<P, T>> = Vec::with_capacity(entries.len());
        for (pattern, value) in entries {
            let mut parent = places.len().checked_sub(1);
            while let Some(place) = parent.and_then(|index| places.get(index)) {
                if holds(&place.pattern, &pattern) {
                    break;
                }
                parent = place.parent;
            }
            places.push(NestedEntry { pattern, value, parent });
        }
        Self(places.into())
    }

    /// The innermost entry that contains the point. Every such entry sorts before the point, and
    /// all entries in between are inside of it, so walking outwards from the last entry before the
    /// point finds it.
    fn find(&self, is_before: impl Fn(&P) -> bool, holds: impl Fn(&P) -> bool) -> Option<T> {
        let after = self.0.partition_point(|place| is_before(&place.pattern));
        let mut place = self.0.get(after.checked_sub(1)?)?;
        while !holds(&place.pattern) {
            place = self.0.get(place.parent?)?;
        }
        Some(place.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_http::Key;

    use super::*;

    fn index(entries: &[&str]) -> KeyIndex<usize> {
        let matchers: Vec<KeyMatcher> = entries.iter().map(|text| text.parse().unwrap()).collect();
        KeyIndex::new(matchers.iter().zip(0..))
    }

    #[test]
    fn the_most_particular_entry_is_found_in_whatever_order() {
        let entries = ["*", "tenant-42", "tenant-*", "tenant-4*", "10.0.0.0/8", "10.1.0.0/16"];
        let found = |key: &str, network: Option<&str>| {
            let network = network.map(|text| text.parse().unwrap());
            let find = |entries: &[&str]| {
                index(entries).find(key.as_bytes(), network).map(|index| entries[index].to_owned())
            };
            let forward = find(&entries);
            let mut backward = entries;
            backward.reverse();
            assert_eq!(find(&backward), forward);
            forward.unwrap()
        };
        assert_eq!(found("tenant-42", None), "tenant-42");
        assert_eq!(found("tenant-43", None), "tenant-4*");
        assert_eq!(found("tenant-7", None), "tenant-*");
        assert_eq!(found("tenant", None), "*");
        assert_eq!(found("", None), "*");
        assert_eq!(found("10.1.2.3", Some("10.1.2.3")), "10.1.0.0/16");
        assert_eq!(found("10.2.2.3", Some("10.2.2.3")), "10.0.0.0/8");
        assert_eq!(found("tenant-42|10.1.2.3", Some("10.1.2.3")), "10.1.0.0/16");
        assert_eq!(found("10.1.2.3", None), "*", "text that looks like an address is none");
        assert_eq!(index(&entries[1..]).find(b"other", None), None);
    }

    fn networks() -> impl Strategy<Value = Cidr> {
        (0..4_u32, 0..4_u32, 0..5_u8, any::<bool>()).prop_map(|(high, low, length, long)| {
            let length = if long { 28 + length } else { length };
            let bits = (high << 30 | low) & !u32::MAX.checked_shr(length.into()).unwrap_or(0);
            Cidr::new(std::net::Ipv4Addr::from_bits(bits).into(), length).unwrap()
        })
    }

    proptest! {
        #[test]
        fn an_index_finds_what_looking_at_every_entry_does(
            prefixes in prop::collection::vec("[ab]{0,4}", 0..8),
            ranges in prop::collection::vec(networks(), 0..8),
            key in "[ab]{0,5}",
            network in networks(),
        ) {
            let by_key: Vec<KeyMatcher> =
                prefixes.iter().map(KeyMatcher::prefix).collect();
            let by_network: Vec<KeyMatcher> = ranges.iter().copied().map(KeyMatcher::range).collect();
            let all: Vec<&KeyMatcher> = by_key.iter().chain(&by_network).collect();
            let index = KeyIndex::new(all.iter().map(|matcher| (*matcher, *matcher)));
            let range = ranges.iter().filter(|range| range.covers(network)).max_by_key(|range| range.len());
            let prefix = prefixes.iter().filter(|text| key.starts_with(*text)).max_by_key(|text| text.len());
            let expected = match (range, prefix) {
                (Some(range), _) => Some(KeyMatcher::range(*range)),
                (None, Some(prefix)) => Some(KeyMatcher::prefix(prefix)),
                (None, None) => None,
            };
            prop_assert_eq!(index.find(Key::new(&key).as_bytes(), Some(network)), expected.as_ref());
        }
    }
}
