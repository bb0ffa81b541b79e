//! Blocks of our own in the incumbent's files.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::path::Path;
use super::position::Position;
#[cfg(feature = "service")]
use super::position::Span;
#[cfg(feature = "service")]
use super::problem::Report;
use super::source::Source;
use super::yaml::document::{Content, Document, NodeId};
use super::yaml::scalar::{Resolved, resolve};
use super::yaml::walk::for_each_merged;

/// Name of the blocks of our own.
pub(crate) const BLOCK: &str = "x_sluicegate";

/// An `x_sluicegate` block of a domain or descriptor, as it is written.
#[derive(Clone, Debug)]
pub struct Block {
    settings: Tree,
    path: String,
    source: Arc<Source>,
}

/// A value and its position.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Tree {
    /// The first character of the value.
    pub position: Position,
    /// The bytes of a scalar in the file's text, including quotes; those of the anchor's value for an alias.
    pub bytes: Range<usize>,
    /// The value.
    pub value: TreeValue,
}

/// The value of a [`Tree`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TreeValue {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, as it is written.
    Number,
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// Names with their values. Names that `<<` merges are after the others.
    Map(Vec<(Tree, Tree)>),
}

impl Block {
    /// Makes a block of a value whose document has been checked.
    pub(crate) fn new(
        document: &Document,
        id: NodeId,
        source: &Arc<Source>,
        path: &Path<'_>,
    ) -> Self {
        let settings = Tree::new(document, id);
        Self { settings, path: path.to_string(), source: Arc::clone(source) }
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Tree {
        &self.settings
    }

    /// Returns the path to the block in its file, such as `descriptors[0].x_sluicegate`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// Returns the text of the file, without a byte order mark.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// Adds a problem of the block at a position.
    #[cfg(feature = "service")]
    pub(crate) fn report(&self, report: &mut Report, position: Position, message: &str) {
        let span = Span::at(position.line, position.column);
        report.add(&self.source, Some(span), message);
    }
}

impl Tree {
    fn new(document: &Document, id: NodeId) -> Self {
        let position = document.node(id).span.start;
        let (_, node) = document.target(id);
        let value = match &node.content {
            Content::List(items) => {
                TreeValue::List(items.iter().map(|&item| Self::new(document, item)).collect())
            }
            Content::Map(entries) => TreeValue::Map(map(document, entries)),
            Content::Scalar { .. } | Content::Alias(_) => match resolve(node) {
                Some(Ok(Resolved::Bool(value))) => TreeValue::Bool(value),
                Some(Ok(Resolved::Int(_) | Resolved::Large(_) | Resolved::Float(_))) => {
                    TreeValue::Number
                }
                Some(Ok(Resolved::Text(text))) => TreeValue::Text(text),
                Some(Ok(Resolved::Bytes(bytes))) => {
                    TreeValue::Text(String::from_utf8_lossy(&bytes).into_owned())
                }
                Some(Ok(Resolved::Null) | Err(_)) | None => TreeValue::Null,
            },
        };
        Self { position, bytes: node.bytes.clone(), value }
    }

    /// Returns the entries of a map; none for other values.
    #[must_use]
    pub fn entries(&self) -> &[(Self, Self)] {
        match &self.value {
            TreeValue::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the text; `None` for other values.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            TreeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a name in a map; `None` if it is absent or null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        let found = self.entries().iter().find(|(key, _)| key.text() == Some(name));
        found.map(|(_, value)| value).filter(|found| found.value != TreeValue::Null)
    }
}

/// Returns the entries of a map. Its own take precedence over those that `<<` merges. The last merged entry of a name
/// counts.
fn map(document: &Document, entries: &[(NodeId, NodeId)]) -> Vec<(Tree, Tree)> {
    let is_merge = |(key, _): &&(NodeId, NodeId)| document.is_merge(*key);
    let own = entries.iter().filter(|entry| !is_merge(entry));
    let mut read: Vec<(Tree, Tree)> =
        own.map(|&(key, value)| (Tree::new(document, key), Tree::new(document, value))).collect();
    let first_merged = read.len();
    let name = |key: &Tree| key.text().map(str::to_owned);
    let mut places: HashMap<String, usize> =
        read.iter().zip(0..).filter_map(|((key, _), place)| Some((name(key)?, place))).collect();
    for (_, value) in entries.iter().filter(is_merge) {
        for_each_merged(document, *value, &mut |key, value| {
            let key = Tree::new(document, key);
            let place = name(&key).map(|name| *places.entry(name).or_insert(read.len()));
            match place.filter(|&place| place < read.len()) {
                Some(place) if place < first_merged => {}
                Some(place) => read[place] = (key, Tree::new(document, value)),
                None => read.push((key, Tree::new(document, value))),
            }
        });
    }
    read
}
