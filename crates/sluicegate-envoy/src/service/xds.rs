//! Rules from a control plane, over Envoy's discovery protocol (xDS).
//!
//! An [`XdsClient`] subscribes to the rules, and keeps [`RateLimits`](super::RateLimits) up to date.

mod client;
mod endpoint;
mod event;
mod pauses;
mod push;
mod stream;
mod subscription;

pub use client::XdsClient;
pub use endpoint::XdsError;
pub use event::XdsEvent;
