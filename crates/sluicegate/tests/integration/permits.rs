//! Permits: in flight for as long as a value lives, renewed in the background, and told when lost.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod embedded;
#[cfg(feature = "redis")]
mod servers;
