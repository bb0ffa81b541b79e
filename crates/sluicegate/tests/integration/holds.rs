//! Estimates that are held and settled: what a limiter says, over which stores, and that no more than
//! the limit was ever used.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod auditor;
mod failures;
mod limiter;
#[cfg(feature = "redis")]
mod servers;
