//! The service: an HTTP API, metrics and a page.

pub(crate) mod acquire;
mod asked;
mod body;
mod config;
mod cost;
mod decide;
#[cfg(test)]
mod driven;
mod error;
mod explain;
mod fleet;
mod forward_auth;
pub(crate) mod frequent;
mod gates;
mod given;
pub(crate) mod guard;
mod hold;
mod lists;
mod message;
mod metrics;
pub(crate) mod observing;
pub(crate) mod open_gates;
mod openapi;
pub(crate) mod override_json;
mod overrides;
mod overview;
mod page;
pub(crate) mod percent;
mod query;
#[cfg(feature = "envoy")]
mod quota_metrics;
#[cfg(feature = "envoy")]
mod quota_rates;
mod readiness;
mod recent;
mod request_id;
mod reserve;
pub(crate) mod router;
mod seal;
mod service;
mod settle;
mod simulate;
mod status;
mod stream;
mod top;
mod turns;
mod unreadable;
mod used_capacity;
mod waiting;

#[cfg(feature = "resp")]
pub(crate) use error::{ApiError, ApiErrorKind};
pub(crate) use readiness::Readiness;
pub(crate) use seal::Seal;
pub(crate) use service::{Bounds, Secrets, Service};
pub(crate) use turns::Turns;
pub(crate) use waiting::Waiting;
