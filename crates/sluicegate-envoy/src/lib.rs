//! Envoy's side of the Sluicegate rate limiter.
//!
//! The module [`incumbent`] has the files, rules and verdicts of the service envoyproxy/ratelimit, which Sluicegate
//! replaces. It has no I/O and no runtime. With the feature `service`, the module `service` answers over gRPC.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod incumbent;
#[cfg(feature = "service")]
mod protos;
#[cfg(feature = "service")]
mod quota;
#[cfg(feature = "service")]
pub mod service;
