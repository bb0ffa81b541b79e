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
    /// Limit; `None` for a descriptor without one.
    pub current_limit: Option<CurrentLimit>,
    /// Number of remaining requests; 0 without a limit, and `u32::MAX` for an unlimited rule.
    pub remaining: u32,
    /// Whole seconds until the window ends, at least 1; `None` without a limit. With a block: until a denied request can
    /// pass, or until everything is available again.
    pub reset_seconds: Option<u64>,
}

impl Status {
    /// Makes the status of a descriptor that no limit counts.
    pub(crate) const fn of_nothing(code: Code, remaining: u32) -> Self {
        Self { code, current_limit: None, remaining, reset_seconds: None }
    }
}

/// A descriptor's limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CurrentLimit {
    /// Name of the rule; may be empty.
    pub name: String,
    /// Number of requests per unit.
    pub requests_per_unit: u32,
    /// Unit of the limit; `None` for a policy that doesn't grant its quota in a unit.
    pub unit: Option<Unit>,
}
