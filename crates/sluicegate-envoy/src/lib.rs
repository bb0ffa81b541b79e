//! Envoy's side of the Sluicegate rate limiter: no I/O, no runtime.
//!
//! The module [`incumbent`] has the files, rules and verdicts of the service envoyproxy/ratelimit, which Sluicegate
//! replaces.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod incumbent;
