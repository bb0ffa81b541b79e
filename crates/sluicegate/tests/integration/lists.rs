//! Lists of holders and bans, and manual revocation, in every store and through layers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[cfg(feature = "redis")]
mod bans;
#[cfg(feature = "redis")]
mod holders;
#[cfg(feature = "redis")]
mod stores;
