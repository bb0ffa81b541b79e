//! Requests with an id: what a limiter says to a repeat, over which stores, and that what is asked again
//! where the outcome was unknown is charged once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod limiter;
#[cfg(feature = "redis")]
mod retry;
#[cfg(feature = "redis")]
mod servers;
