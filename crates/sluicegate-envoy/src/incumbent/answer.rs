//! The answer to a request.

use super::metadata::Metadata;
use super::unit::Unit;

/// An answer, with the fields of Envoy's `RateLimitResponse`.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Whether the request passes.
    pub code: Code,
    /// Status of each descriptor, in their order.
    pub statuses: Vec<Status>,
    /// Names and values of headers for the client's response.
    pub response_headers: Vec<(String, String)>,
    /// Metadata for the proxy, if `RESPONSE_DYNAMIC_METADATA` is set.
    pub dynamic_metadata: Option<Metadata>,
}

/// The result for a request or descriptor.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Code {
    /// Within the limit.
    Ok,
    /// Over the limit.
    OverLimit,
}

/// The status of a descriptor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// Whether the descriptor is within its limit.
    pub code: Code,
    /// Limit and window; `None` for a descriptor without one.
    pub current_limit: Option<CurrentLimit>,
    /// Number of remaining requests; 0 without a limit, and `u32::MAX` for an unlimited rule.
    pub remaining: u32,
}

/// A descriptor's limit and the current window.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CurrentLimit {
    /// Name of the rule; may be empty.
    pub name: String,
    /// Number of requests per unit.
    pub requests_per_unit: u32,
    /// Unit of the limit.
    pub unit: Unit,
    /// Whole seconds until the window ends, at least 1.
    pub reset_seconds: u64,
}
