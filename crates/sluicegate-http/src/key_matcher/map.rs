//! Finds the most specific entry for a key.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::by_length::ByLength;
use super::{KeyMatcher, Pattern};
use crate::cidr::Cidr;
use crate::key_bytes::{ESCAPE, RESERVED, SEPARATOR};
use crate::key_expression::KeyExpression;
use crate::key_view::{Form, KeyView};

/// Values by [`KeyMatcher`], for allow lists, block lists and overrides. A look-up finds the value of
/// the most specific entry that matches a key.
///
/// If several entries match, the most specific one counts, in any order of the entries:
///
/// 1. an entry without `*` and range;
/// 2. the entry with the longest range;
/// 3. by the first component in which they differ, a text before a beginning, and a longer beginning
///    before a shorter one;
/// 4. the first of equal entries.
///
/// If keys have several [alternatives](KeyExpression), an entry is read for the first one that it
/// fits. It matches keys of a later alternative only where that names the same components. So in
/// `user or header:x-name`, no client gets on the list of users by sending a field. A range matches
/// the address of each alternative.
///
/// The cost of a look-up is linear in the length of the key and in the number of different lengths of
/// beginnings and ranges. It doesn't depend on the number of entries.
///
/// ```
/// use sluicegate_http::{Key, KeyExpression, KeyMap};
///
/// let expression: KeyExpression = "header:x-tenant + user or ip".parse()?;
/// let entries = [("acme|*", 50), ("acme|alice", 500), ("10.0.0.0/8", 5)];
/// let entries = entries.map(|(text, times)| (text.parse().unwrap(), times));
/// let map = KeyMap::new(&expression, entries);
/// let find = |text: &str| map.find(expression.read(text.as_bytes())).copied();
/// assert_eq!(find("acme|bob"), Some(50));
/// assert_eq!(find("acme|alice"), Some(500));
/// assert_eq!(find("oscorp|alice"), None);
/// assert_eq!(map.find(Key::of_network("10.1.2.3".parse()?).view()), Some(&5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyMap<T> {
    /// Values in the order of their entries, the most specific one first.
    values: Box<[T]>,
    /// The entries of each alternative; the last element is for alternatives that code makes.
    alternatives: Box<[Entries]>,
    has_ranges: bool,
}

/// The index of a value.
type Rank = usize;

/// The entries that keys of an alternative can match.
#[derive(Clone, Debug, Default)]
struct Entries {
    /// Rank of the entry `*`.
    all: Option<Rank>,
    /// Ranks of entries that are a range alone.
    networks: ByLength<Cidr, Option<Rank>>,
    /// For keys of one component.
    single: Node,
    /// For keys of several components.
    joined: Node,
}

/// The entries that begin with the same patterns.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Rank of the entry that ends here.
    end: Option<Rank>,
    /// Rank of the entry that ends here with a `*`, which matches any rest.
    open: Option<Rank>,
    exact: HashMap<Box<[u8]>, Node>,
    prefixes: ByLength<Box<[u8]>, Node>,
    ranges: ByLength<Cidr, Node>,
}

impl<T> KeyMap<T> {
    /// Returns the values of these entries, for keys that `expression` makes.
    pub fn new(
        expression: &KeyExpression,
        entries: impl IntoIterator<Item = (KeyMatcher, T)>,
    ) -> Self {
        let mut sorted: Vec<(KeyMatcher, T)> = entries.into_iter().collect();
        sorted.sort_by_cached_key(|(entry, _)| specificity(entry));
        // Most limits have no entries, and there may be very many limits, so allocate nothing for
        // them.
        let count = if sorted.is_empty() { 0 } else { expression.alternatives().len() + 1 };
        let mut alternatives: Box<[Entries]> = (0..count).map(|_| Entries::default()).collect();
        let mut values = Vec::with_capacity(sorted.len());
        let mut has_ranges = false;
        for (rank, (entry, value)) in sorted.into_iter().enumerate() {
            has_ranges |= longest_range(&entry).is_some();
            for (index, entries) in alternatives.iter_mut().enumerate() {
                if entry.concerns(index, expression) {
                    entries.insert(&entry, rank);
                }
            }
            values.push(value);
        }
        Self { values: values.into(), alternatives, has_ranges }
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of the most specific entry that `key` matches.
    #[must_use]
    pub fn find(&self, key: KeyView<'_>) -> Option<&T> {
        let entries = self.alternatives.get(key.alternative).or(self.alternatives.last())?;
        let network = if self.has_ranges { key.network() } else { None };
        let mut search = Search { key, network, best: entries.all };
        if let Some(network) = network {
            in_ranges(&entries.networks, network).for_each(|rank| search.found(*rank));
        }
        match key.form {
            Form::Opaque => {}
            Form::Single => search.visit(&entries.single, Some(key.parts), 0),
            Form::Joined => search.visit(&entries.joined, Some(key.parts), 0),
        }
        self.values.get(search.best?)
    }
}

impl Entries {
    fn insert(&mut self, entry: &KeyMatcher, rank: Rank) {
        match &*entry.components {
            [Pattern::Prefix(text)] if text.is_empty() => drop(self.all.get_or_insert(rank)),
            [Pattern::Range(range)] => {
                let known = self.networks.entry(range.len().into(), *range);
                known.get_or_insert(rank);
            }
            components => {
                if let Some(text) = entry.as_text() {
                    self.single.insert([&text], &<[u8]>::to_vec, rank);
                }
                self.joined.insert(components, &escaped, rank);
            }
        }
    }
}

impl Node {
    /// Adds an entry. `write` writes its text in the form that keys have.
    fn insert<'p>(
        &mut self,
        components: impl IntoIterator<Item = &'p Pattern>,
        write: &dyn Fn(&[u8]) -> Vec<u8>,
        rank: Rank,
    ) {
        let (mut node, mut is_open) = (self, false);
        for component in components {
            is_open = false;
            node = match component {
                Pattern::Exact(text) => node.exact.entry(write(text).into()).or_default(),
                Pattern::Prefix(text) => {
                    is_open = true;
                    let text = write(text);
                    node.prefixes.entry(text.len(), text.into())
                }
                Pattern::Range(range) => node.ranges.entry(range.len().into(), *range),
            };
        }
        let end = if is_open { &mut node.open } else { &mut node.end };
        end.get_or_insert(rank);
    }
}

/// The search for the most specific of all entries that match.
struct Search<'k> {
    key: KeyView<'k>,
    network: Option<Cidr>,
    best: Option<Rank>,
}

impl<'k> Search<'k> {
    fn found(&mut self, rank: Option<Rank>) {
        if let Some(rank) = rank {
            self.best = Some(self.best.map_or(rank, |best| best.min(rank)));
        }
    }

    /// Searches the entries of `node` for the components in `parts`. The first of them has `index`.
    fn visit(&mut self, node: &Node, parts: Option<&'k [u8]>, index: usize) {
        let Some(parts) = parts else {
            self.found(node.end);
            return;
        };
        let (component, rest) = self.key.split_first(parts);
        if let Some(next) = node.exact.get(component) {
            self.visit(next, rest, index + 1);
        }
        let beginnings = node.prefixes.up_to(component.len(), |table, length| {
            table.get(component.get(..length).unwrap_or_default())
        });
        for next in beginnings {
            self.found(next.open);
            self.visit(next, rest, index + 1);
        }
        if let Some(network) = self.network.filter(|_| self.key.network_at == Some(index)) {
            in_ranges(&node.ranges, network).for_each(|next| self.visit(next, rest, index + 1));
        }
    }
}

/// Returns the values of all ranges that cover `network`.
fn in_ranges<V: Default>(ranges: &ByLength<Cidr, V>, network: Cidr) -> impl Iterator<Item = &V> {
    ranges.up_to(network.len().into(), move |table, length| {
        let length = u8::try_from(length).unwrap_or(u8::MAX);
        table.get(&Cidr::masked(network.address(), length))
    })
}

/// Returns the text of a component as joined keys have it.
fn escaped(text: &[u8]) -> Vec<u8> {
    let reserved = (text.first() == Some(&RESERVED)).then_some(RESERVED);
    let bytes = text.iter().flat_map(|&byte| {
        let escape = matches!(byte, SEPARATOR | ESCAPE).then_some(ESCAPE);
        escape.into_iter().chain([byte])
    });
    reserved.into_iter().chain(bytes).collect()
}

/// Sorts entries from the most specific one on.
fn specificity(entry: &KeyMatcher) -> impl Ord + use<> {
    let is_exact = |component: &Pattern| matches!(component, Pattern::Exact(_));
    let mut components: Vec<(u8, Reverse<usize>)> = entry
        .components
        .iter()
        .map(|component| match component {
            Pattern::Exact(_) => (0, Reverse(0)),
            Pattern::Range(range) => (1, Reverse(range.len().into())),
            Pattern::Prefix(text) => (2, Reverse(text.len())),
        })
        .collect();
    // An entry comes before those that end earlier.
    components.push((3, Reverse(0)));
    (!entry.components.iter().all(is_exact), Reverse(longest_range(entry)), components)
}

/// Returns the length of the longest range in an entry.
fn longest_range(entry: &KeyMatcher) -> Option<u8> {
    let length = |component: &Pattern| match component {
        Pattern::Range(range) => Some(range.len()),
        _ => None,
    };
    entry.components.iter().filter_map(length).max()
}
