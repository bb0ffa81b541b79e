//! A level of descriptors, in the form in which requests find them.

use std::collections::HashMap;
use std::sync::Arc;

use super::pattern::Pattern;
use super::rule::Rule;

/// The descriptors of one level.
#[derive(Debug, Default)]
pub(crate) struct Level {
    nodes: Vec<Node>,
    by_key: HashMap<String, usize>,
    /// The keys with wildcards, in the order of the files.
    patterns: Vec<(Pattern, usize)>,
}

/// A descriptor.
#[derive(Debug)]
pub(crate) struct Node {
    /// The key, or the key and the value with `_` between them.
    pub(crate) key: String,
    pub(crate) rule: Option<Arc<Rule>>,
    pub(crate) value_to_metric: bool,
    pub(crate) share_threshold: bool,
    /// Whether requests with different values find it, which are counted separately.
    pub(crate) is_open: bool,
    pub(crate) level: Level,
}

/// The node for an entry of a request, and the part of the entry that found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) node: &'a Node,
    pub(crate) by: FoundBy,
}

/// The part of an entry that found a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FoundBy {
    KeyAndValue,
    Wildcard,
    Key,
}

impl Level {
    pub(crate) const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns whether the level has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// Adds a node whose key the level doesn't have.
    pub(crate) fn push(&mut self, node: Node) {
        let index = self.nodes.len();
        if let Some(pattern) = Pattern::new(&node.key) {
            self.patterns.push((pattern, index));
        }
        self.by_key.insert(node.key.clone(), index);
        self.nodes.push(node);
    }

    /// Returns the node for an entry: with its key and value, by a wildcard, or with its key alone.
    ///
    /// `joined` is the key and the value with `_` between them.
    pub(crate) fn find(&self, key: &str, joined: &str) -> Option<Found<'_>> {
        let exact = self.by_key.get(joined).map(|&index| (index, FoundBy::KeyAndValue));
        let wildcard = || {
            let mut patterns = self.patterns.iter();
            patterns
                .find(|(pattern, _)| pattern.matches(joined))
                .map(|&(_, index)| (index, FoundBy::Wildcard))
        };
        let bare = || self.by_key.get(key).map(|&index| (index, FoundBy::Key));
        let (index, by) = exact.or_else(wildcard).or_else(bare)?;
        Some(Found { node: self.nodes.get(index)?, by })
    }
}
