//! What a request that takes says on the command line, besides limits, keys and costs.

use sluicegate::store::Span;

/// What a request that takes may say besides.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// For how long what is taken is held.
    pub(crate) hold: Option<Span>,
    /// By which a repeat is known.
    pub(crate) request_id: Option<String>,
}
