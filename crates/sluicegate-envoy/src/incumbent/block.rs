//! Blocks of our own in the incumbent's files.

use super::position::Position;
use super::yaml::document::{Content, Document, NodeId};
use super::yaml::scalar::{Resolved, resolve};
use super::yaml::walk::for_each_entry;

/// Name of the blocks of our own.
pub(crate) const EXTENSION: &str = "x_sluicegate";

/// An `x_sluicegate` block of a domain or descriptor, as it is written.
pub type Extension = Tree;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The first character of the value.
    pub position: Position,
    /// The value.
    pub value: TreeValue,
}

/// The value of a [`Tree`].
#[derive(Clone, Debug, PartialEq)]
pub enum TreeValue {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// Names with their values, as they are written. The last value of a name counts.
    Map(Vec<(Tree, Tree)>),
}

impl Tree {
    /// Makes a tree of a node whose document has been checked.
    pub(crate) fn new(document: &Document, id: NodeId) -> Self {
        let (id, node) = document.target(id);
        let value = match &node.content {
            Content::List(items) => {
                TreeValue::List(items.iter().map(|&item| Self::new(document, item)).collect())
            }
            Content::Map(_) => TreeValue::Map(entries(document, id)),
            _ => match resolve(node) {
                Some(Ok(Resolved::Bool(value))) => TreeValue::Bool(value),
                Some(Ok(Resolved::Int(number))) => TreeValue::Int(number.into()),
                Some(Ok(Resolved::Large(number))) => TreeValue::Int(number.into()),
                Some(Ok(Resolved::Float(number))) => TreeValue::Float(number),
                Some(Ok(Resolved::Text(text))) => TreeValue::Text(text),
                Some(Ok(Resolved::Bytes(bytes))) => {
                    TreeValue::Text(String::from_utf8_lossy(&bytes).into_owned())
                }
                Some(Ok(Resolved::Null) | Err(_)) | None => TreeValue::Null,
            },
        };
        Self { position: node.span.start, value }
    }
}

fn entries(document: &Document, map: NodeId) -> Vec<(Tree, Tree)> {
    let mut entries = Vec::new();
    for_each_entry(document, map, &mut |key, value| {
        entries.push((Tree::new(document, key), Tree::new(document, value)));
    });
    entries
}
