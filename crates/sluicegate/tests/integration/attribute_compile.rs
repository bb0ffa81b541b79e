//! Right uses of `#[limit(…)]` that only a compiler can find fault with. What it says of wrong uses
//! is tested in the crate `sluicegate-macros`.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may do what tests may")]

mod placed;
mod renamed;
mod strict;
