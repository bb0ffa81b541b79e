//! The options of a request that takes units, except for limits, keys and costs.

use sluicegate::store::Span;

/// Options of a request that takes units.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// Lifetime of the hold, if the units are held.
    pub(crate) hold: Option<Span>,
    /// Id that identifies a repeated request.
    pub(crate) request_id: Option<String>,
}
