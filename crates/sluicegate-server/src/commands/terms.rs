//! The options of a request, except for limits, keys and costs.

use sluicegate::store::Span;

/// Options of a request.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// Lifetime of the hold, if the units are held.
    pub(crate) hold: Option<Span>,
    /// Id that identifies a repeated request.
    pub(crate) request_id: Option<String>,
    /// The name of the only policy to pause or resume.
    pub(crate) policy: Option<String>,
}
