//! Estimates that are held and settled: a limiter's answers, over all stores, and a usage that never exceeds the limit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod auditor;
mod failures;
mod limiter;
#[cfg(feature = "redis")]
mod servers;
