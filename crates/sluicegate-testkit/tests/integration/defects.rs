//! Defects of other limiters: one test per defect, on every store.
//!
//! The rows come from the five designs that Sluicegate was built from, and from a survey of
//! published libraries. "Seed defect 2.8" is part 2 of the study of the designs, source 2; "library
//! defect 7.12" is from the survey.
//!
//! Each test is named for the correct behavior. A schedule is written once and sent to [`every
//! store`](everywhere::Everywhere). All stores must agree to the last number of every answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "the helpers of tests may do what tests may"
)]

mod caller_clocks;
mod everywhere;
mod foreign;
mod keys;
mod libraries;
mod locked_permits;
mod outages;
mod own;
mod raw;
mod slice_ring;
mod sorted_set;
mod whole_seconds;
