//! What other limiters do wrong, one test per defect, on every store there is.
//!
//! The rows come from the five designs that Sluicegate was built from ("seed defect 2.8": part 2 of
//! that study, source 2) and from a survey of published libraries ("library defect 7.12"). Each
//! test is named for what is right. A schedule is written once and asked of [`every
//! store`](everywhere::Everywhere), which have to agree to the last number of every answer.

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
