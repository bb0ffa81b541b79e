//! A simulated fleet of Envoys with the rate limit quota service.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod auditor;
mod bound;
mod faults;
mod proxy;
mod replica;
mod simulation;
mod utilisation;
