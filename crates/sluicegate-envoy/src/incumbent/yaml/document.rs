//! A YAML document as a list of nodes.

use std::ops::Range;

use crate::incumbent::position::Span;

/// The first document of a file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    nodes: Vec<Node>,
    /// The outermost node; `None` for a file without a document.
    pub(crate) root: Option<NodeId>,
}

/// The place of a node in its document.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct NodeId(usize);

/// A value and its position.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) span: Span,
    /// The bytes of a scalar in the text, including quotes; empty for other nodes.
    pub(crate) bytes: Range<usize>,
    /// The tag, with its handle replaced by the prefix; empty without one.
    pub(crate) tag: Box<str>,
}

/// The kind of a node.
#[derive(Debug)]
pub(crate) enum Content {
    /// Text, with whether it may be something else: a number, a boolean or null.
    Scalar {
        text: Box<str>,
        is_implicit: bool,
    },
    List(Vec<NodeId>),
    Map(Vec<(NodeId, NodeId)>),
    Alias(NodeId),
}

/// The URI that `!!` stands for.
pub(crate) const CORE: &str = "tag:yaml.org,2002:";

impl Document {
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Returns the node, or the one that it is an alias of.
    ///
    /// An anchor is always at a value, so there is one step.
    pub(crate) fn target(&self, id: NodeId) -> (NodeId, &Node) {
        let id = match self.node(id).content {
            Content::Alias(target) => target,
            _ => id,
        };
        (id, self.node(id))
    }

    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    /// Sets the entries of a list or map, which are read after its beginning.
    pub(crate) fn set_content(&mut self, id: NodeId, content: Content) {
        self.nodes[id.0].content = content;
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether a key is `<<`, which merges the entries of its value.
    pub(crate) fn is_merge(&self, key: NodeId) -> bool {
        let node = self.node(key);
        match &node.content {
            Content::Scalar { text, is_implicit } => {
                &**text == "<<"
                    && (*is_implicit
                        || node.tag.strip_prefix(CORE).is_some_and(|tag| tag == "merge"))
            }
            _ => false,
        }
    }
}
