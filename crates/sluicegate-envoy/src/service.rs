//! Envoy's protocols over gRPC, decided by the limits of a registry.
//!
//! A [`RateLimits`] takes the place of envoyproxy/ratelimit. It makes a limit of each rule, named after its domain and
//! path. Lists, metrics and admin calls of the registry see these limits. [`RateLimits::load`] replaces all rules, and
//! keeps the consumed units. A rule with an `x_sluicegate` block decides by the policies of the block. [`routes`] returns its
//! services for a listener of the caller, whose [`Guard`] admits calls.
//!
//! An [`XdsClient`] takes the rules from a control plane.
//!
//! A [`NativeLimits`] decides by the limits that the configuration assigns to descriptors (`envoy: domains:`).
//! [`native_routes`] returns its services. They include `Check` of external authorization, for which a route names the
//! limits.

mod asking;
mod assigned;
mod block_settings;
mod call_timeout;
pub(crate) mod codec;
mod ext_authz;
mod guard;
mod json;
mod known_over;
mod limit_names;
mod load_error;
mod messages;
mod native;
mod native_asks;
mod numbers;
mod quotas;
mod rate_limits;
mod rights;
mod rlqs;
mod rls;
mod routed;
mod rule_limits;
mod statuses;
mod xds;

pub use guard::{Answer, Guard, Unguarded};
pub use json::JsonAnswer;
pub use load_error::LoadError;
pub use native::NativeLimits;
pub use quotas::{
    Ignored, KeyQuotas, LimitQuotas, Outgoing, QuotaCounts, QuotaFleet, QuotaShares, QuotaStream,
    Quotas,
};
pub use rate_limits::{Decided, RateLimits};
pub use rights::Rights;
pub use routed::{Answering, Frequent, Health, Routed, native_routes, routes};
pub use xds::{XdsClient, XdsError, XdsEvent};

/// The messages of Envoy's protocols, their clients, and the servers of rate limits and of the discovery protocol.
pub mod protos {
    pub use crate::protos::envoy::config::core::v3::{
        Address, HeaderMap, HeaderValue, HeaderValueOption, Node, SocketAddress,
        header_value_option,
    };
    pub use crate::protos::envoy::extensions::common::ratelimit::v3::{
        RateLimitDescriptor, rate_limit_descriptor,
    };
    pub use crate::protos::envoy::service::auth::v3::{
        AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
        attribute_context, authorization_client, check_response,
    };
    pub use crate::protos::envoy::service::discovery::v3::{
        DiscoveryRequest, DiscoveryResponse, aggregated_discovery_service_client,
        aggregated_discovery_service_server,
    };
    pub use crate::protos::envoy::service::rate_limit_quota::v3::{
        BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports, rate_limit_quota_response,
        rate_limit_quota_service_client, rate_limit_quota_usage_reports,
    };
    pub use crate::protos::envoy::service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse, rate_limit_response, rate_limit_service_client,
        rate_limit_service_server,
    };
    pub use crate::protos::envoy::r#type::v3::{
        HttpStatus, RateLimitStrategy, RateLimitUnit, TokenBucket, rate_limit_strategy,
    };
    pub use crate::protos::google::rpc;
    pub use crate::protos::ratelimit::config::ratelimit::v3 as rules;
}
