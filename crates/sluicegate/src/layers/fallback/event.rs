//! Events of a fallback.

use std::fmt;
use std::num::NonZeroU16;
use std::time::Duration;

use sluicegate_core::{NodeId, Span, StoreError, StoreId};

/// The local limiter took over for a store, or the store has recovered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FallbackEvent {
    /// The store.
    pub store: StoreId,
    /// The node, if the store has several.
    pub node: Option<NodeId>,
    /// The change.
    pub change: FallbackChange,
}

/// A change between the store and the local limiter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FallbackChange {
    /// Requests are decided in this process.
    Entered {
        /// The failure of the first of them.
        because: StoreError,
        /// The number of processes that share the limits.
        processes: NonZeroU16,
    },
    /// The store has answered, and not failed for a second.
    Left {
        /// The time for which the local limiter took over.
        after: Duration,
    },
}

/// The function that gets the events.
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
                Span::from(*after).in_words()
            ),
        }
    }
}
