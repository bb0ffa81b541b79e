//! Requests with an id: a limiter's answer to a repeat, over all stores. A request that is repeated after an unknown
//! outcome is charged once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod limiter;
#[cfg(feature = "redis")]
mod retry;
#[cfg(feature = "redis")]
mod servers;
