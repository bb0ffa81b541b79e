//! Checks every value of a document, through its aliases and merges.

use std::collections::HashSet;

use super::document::{Content, Document, Node, NodeId};
use super::read::MAX_DEPTH;
use super::scalar::resolve;
use crate::incumbent::position::Span;
use crate::incumbent::problem::beginning;
use crate::incumbent::source::Flaw;

/// Checks that aliases end, that `<<` has maps, that keys are scalars, and that tags fit.
///
/// The document may stand for `max_values` values, each alias counted with the values that it stands for. After this
/// check, a walk through the aliases of the document ends.
pub(crate) fn check(document: &Document, max_values: u64) -> Result<(), Flaw> {
    let Some(root) = document.root else { return Ok(()) };
    let mut walk =
        Walk { document, max_values, values: 1, aliased: 0, aliases: HashSet::new(), depth: 0 };
    walk.value(root)
}

/// Calls `visit` with each key and value of a map, in the order in which they apply; `<<` is replaced by its entries.
///
/// The last entry of a name counts.
pub(crate) fn for_each_entry(
    document: &Document,
    map: NodeId,
    visit: &mut dyn FnMut(NodeId, NodeId),
) {
    let (_, node) = document.target(map);
    let Content::Map(entries) = &node.content else { return };
    for &(key, value) in entries {
        if !document.is_merge(key) {
            visit(key, value);
            continue;
        }
        for_each_merged(document, value, visit);
    }
}

/// Calls `visit` with each key and value that the value of a `<<` merges.
pub(crate) fn for_each_merged(
    document: &Document,
    value: NodeId,
    visit: &mut dyn FnMut(NodeId, NodeId),
) {
    let (id, merged) = document.target(value);
    match &merged.content {
        // The first of several maps has precedence.
        Content::List(maps) => {
            maps.iter().rev().for_each(|&map| for_each_entry(document, map, visit));
        }
        _ => for_each_entry(document, id, visit),
    }
}

struct Walk<'a> {
    document: &'a Document,
    max_values: u64,
    /// The number of values so far, and of those that stand behind an alias.
    values: u64,
    aliased: u64,
    /// The aliases that the current value is behind.
    aliases: HashSet<NodeId>,
    depth: usize,
}

impl Walk<'_> {
    fn value(&mut self, id: NodeId) -> Result<(), Flaw> {
        let node = self.document.node(id);
        self.count(node.span)?;
        match &node.content {
            Content::Alias(target) => {
                if !self.aliases.insert(id) {
                    let message =
                        "this alias stands for a value that holds it: write the value out";
                    return Err(flaw(node.span, message.to_owned()));
                }
                self.value(*target)?;
                self.aliases.remove(&id);
                Ok(())
            }
            Content::Scalar { .. } => scalar(node),
            Content::List(items) => {
                self.nested(node.span, |walk| items.iter().try_for_each(|&item| walk.value(item)))
            }
            Content::Map(entries) => self.nested(node.span, |walk| {
                entries.iter().try_for_each(|&(key, value)| walk.entry(key, value))
            }),
        }
    }

    fn entry(&mut self, key: NodeId, value: NodeId) -> Result<(), Flaw> {
        if self.document.is_merge(key) {
            return self.merge(value);
        }
        self.value(key)?;
        let (_, node) = self.document.target(key);
        if !matches!(node.content, Content::Scalar { .. }) {
            let span = self.document.node(key).span;
            return Err(flaw(span, "a key must be text, but is a list or a map".to_owned()));
        }
        self.value(value)
    }

    fn merge(&mut self, value: NodeId) -> Result<(), Flaw> {
        let document = self.document;
        let is_map = |id| matches!(document.target(id).1.content, Content::Map(_));
        match &document.node(value).content {
            Content::List(maps) if maps.iter().all(|&map| is_map(map)) => {
                maps.iter().try_for_each(|&map| self.value(map))
            }
            Content::Map(_) | Content::Alias(_) if is_map(value) => self.value(value),
            _ => {
                let message = "`<<` must have a map, an alias of one, or a list of these";
                Err(flaw(document.node(value).span, message.to_owned()))
            }
        }
    }

    fn nested(
        &mut self,
        span: Span,
        values: impl FnOnce(&mut Self) -> Result<(), Flaw>,
    ) -> Result<(), Flaw> {
        if self.depth == MAX_DEPTH {
            let message = format!(
                "lists and maps are more than {MAX_DEPTH} levels deep here: nest fewer descriptors"
            );
            return Err(flaw(span, message));
        }
        self.depth += 1;
        values(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn count(&mut self, span: Span) -> Result<(), Flaw> {
        self.values += 1;
        self.aliased += u64::from(!self.aliases.is_empty());
        if self.values > self.max_values || self.is_excessive() {
            let message = "the aliases up to here stand for too much: write the values out";
            return Err(flaw(span, message.to_owned()));
        }
        Ok(())
    }

    /// Returns whether the share of aliased values is above the incumbent's.
    ///
    /// The maximum is 99 % up to 400,000 values. It falls to 10 % at 4,000,000.
    const fn is_excessive(&self) -> bool {
        const LOW: u64 = 400_000;
        const RANGE: u64 = 3_600_000;
        if self.aliased <= 100 || self.values <= 1_000 {
            return false;
        }
        let above = self.values.saturating_sub(LOW);
        let above = if above > RANGE { RANGE } else { above };
        let percent_of_range = 99 * RANGE - 89 * above;
        self.aliased as u128 * 100 * RANGE as u128 > self.values as u128 * percent_of_range as u128
    }
}

fn scalar(node: &Node) -> Result<(), Flaw> {
    let (Some(Err(mismatch)), Content::Scalar { text, .. }) = (resolve(node), &node.content) else {
        return Ok(());
    };
    let message = format!(
        "`{}` isn't a value of its tag `!!{}`: change one of them",
        beginning(text),
        mismatch.tag
    );
    Err(flaw(node.span, message))
}

const fn flaw(span: Span, message: String) -> Flaw {
    Flaw { span: Some(span), message }
}
