//! The service envoyproxy/ratelimit over gRPC, decided by the limits of a registry.
//!
//! A [`RateLimits`] makes a limit of each rule, named after its domain and path. Lists, metrics and admin calls of the
//! registry see these limits. [`RateLimits::load`] replaces all rules, and keeps the consumed units. [`routes`] returns the
//! gRPC services for a listener of the caller.

mod call_timeout;
mod known_over;
mod messages;
mod rate_limits;
mod rls;
mod rule_limits;

pub use rate_limits::{Decided, LoadError, RateLimits};
pub use rls::{Health, Routed, routes};

/// The messages and the client of Envoy's rate limit protocol.
pub mod protos {
    pub use crate::protos::envoy::config::core::v3::HeaderValue;
    pub use crate::protos::envoy::extensions::common::ratelimit::v3::{
        RateLimitDescriptor, rate_limit_descriptor,
    };
    pub use crate::protos::envoy::service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse, rate_limit_response, rate_limit_service_client,
    };
    pub use crate::protos::envoy::r#type::v3::RateLimitUnit;
}
