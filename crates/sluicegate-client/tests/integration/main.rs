//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod without_tokio;
