//! Requests with an id: a limiter's answer to a repeat, over all stores, and the single charge of a request that is
//! repeated after an unknown outcome.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod limiter;
#[cfg(feature = "redis")]
mod retry;
#[cfg(feature = "redis")]
mod servers;
