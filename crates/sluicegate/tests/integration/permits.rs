//! Permits: in flight until a value is dropped, renewed in the background, with a notification of their loss.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod embedded;
#[cfg(feature = "redis")]
mod servers;
