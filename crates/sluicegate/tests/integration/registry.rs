//! All limits of a program by name: the answers of gates, and the changes by a new configuration.
//!
//! "Seed defect 3.13" and "seed 4.8" name rows of the study of the designs that Sluicegate was built from, as in
//! `sluicegate-testkit/tests/integration/defects`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests may do what tests may"
)]

mod given_keys;
mod holds;
mod joint;
mod lists;
mod names;
mod overrides;
mod reload;
mod requests;
mod settings;
pub(crate) mod support;
mod switches;
mod unknown;
mod uses;
