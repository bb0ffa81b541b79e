//! What a fallback tells.

use std::fmt;
use std::num::NonZeroU16;

use sluicegate_core::{NodeId, Span, StoreError, StoreId};

/// A store began to be stood in for, or is back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FallbackEvent {
    /// The store.
    pub store: StoreId,
    /// The node, if the store has several.
    pub node: Option<NodeId>,
    /// What changed.
    pub change: FallbackChange,
}

/// What changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FallbackChange {
    /// Requests are decided in this process.
    Entered {
        /// The failure of the first of them.
        because: StoreError,
        /// How many processes share the limits.
        processes: NonZeroU16,
    },
    /// The store has answered, and not failed for a second.
    Left {
        /// How long it was stood in for.
        after: Span,
    },
}

/// Who is told.
pub(super) type OnChange = dyn Fn(&FallbackEvent) + Send + Sync;

impl fmt::Display for FallbackEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            None => write!(f, "the store {}", self.store)?,
            Some(NodeId(node)) => write!(f, "node {node} of the store {}", self.store)?,
        }
        match &self.change {
            FallbackChange::Entered { because, processes } => write!(
                f,
                " fails: {because}. Until it answers again, limits with `on_store_failure: local` are decided here, each by the share of one of {processes} processes"
            ),
            FallbackChange::Left { after } => write!(
                f,
                " answers again, after {} in which limits were decided here",
                after.in_words()
            ),
        }
    }
}
