//! Right uses of `#[limit(…)]` that only a compiler can find fault with. What it says of wrong uses
//! is tested in the crate `sluicegate-macros`.
//!
//! The modules share a process, so none of them installs a registry: that would take the limits of the others away
//! while they count.

#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, reason = "the helpers of tests may do what tests may")]

mod placed;
mod renamed;
mod strict;
