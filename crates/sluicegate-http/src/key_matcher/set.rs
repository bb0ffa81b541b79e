//! Sets of keys for allow and block lists.

use std::collections::HashSet;

use super::{KeyMatcher, OwnedPattern};
use crate::cidr::Cidr;
use crate::cidr_set::CidrSet;
use crate::key::Key;

/// A set of [`KeyMatcher`]s, fast even for long lists: a look-up takes time linear in the length of
/// the key and at most logarithmic in the number of entries.
///
/// ```
/// use sluicegate_http::{Key, KeySet};
///
/// let allowed = ["alice", "internal-*", "10.0.0.0/8"];
/// let allowed: KeySet = allowed.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
/// assert!(allowed.matches(&Key::new("internal-batch")));
/// assert!(allowed.matches(&Key::of_network("10.1.2.3".parse()?)));
/// assert!(!allowed.matches(&Key::new("mallory")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeySet {
    exact: HashSet<Box<[u8]>>,
    /// Sorted; none is a prefix of another.
    prefixes: Box<[Box<[u8]>]>,
    ranges: CidrSet,
}

impl KeySet {
    /// Whether `key` matches an entry.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        self.exact.contains(key.as_bytes())
            || self.has_prefix_of(key.as_bytes())
            || key.network().is_some_and(|network| self.ranges.covers(network))
    }

    /// Whether the set has no entries, and so matches no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.ranges.is_empty()
    }

    fn has_prefix_of(&self, key: &[u8]) -> bool {
        // Everything that sorts between a prefix and the key begins with that prefix. So only the
        // last entry that sorts before the key, or equal to it, can be its prefix.
        let after = self.prefixes.partition_point(|prefix| **prefix <= *key);
        after
            .checked_sub(1)
            .and_then(|index| self.prefixes.get(index))
            .is_some_and(|prefix| key.starts_with(prefix))
    }
}

impl FromIterator<KeyMatcher> for KeySet {
    fn from_iter<I: IntoIterator<Item = KeyMatcher>>(entries: I) -> Self {
        let mut exact = HashSet::new();
        let mut prefixes: Vec<Box<[u8]>> = Vec::new();
        let mut ranges: Vec<Cidr> = Vec::new();
        for entry in entries {
            match entry.0 {
                OwnedPattern::Exact(bytes) => {
                    exact.insert(bytes);
                }
                OwnedPattern::Prefix(bytes) => prefixes.push(bytes),
                OwnedPattern::Range(range) => ranges.push(range),
            }
        }
        prefixes.sort_unstable();
        prefixes.dedup_by(|later, earlier| later.starts_with(earlier));
        Self { exact, prefixes: prefixes.into(), ranges: ranges.into_iter().collect() }
    }
}
