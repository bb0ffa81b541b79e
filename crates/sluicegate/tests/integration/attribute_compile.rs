//! Correct uses of `#[limit(…)]`, which only a compiler can reject. The messages about wrong uses are tested in the
//! crate `sluicegate-macros`.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may do what tests may")]

mod placed;
mod renamed;
mod strict;
