//! Chaos: every fault that a store meets happens under load to real servers, and an auditor holds what
//! was admitted against what the limits promise, in every interval.
//!
//! Each scenario prints a line with what it measured, for `docs/guarantees.md`. With
//! `SLUICEGATE_SOAK=10` each fault happens ten times in a row, to every kind of server that is there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and these say what they measured"
)]

mod auditor;
mod clocks;
mod failovers;
mod holding;
mod load;
mod losses;
mod outages;
mod spending;
mod storms;
mod tally;

use load::rounds;
use sluicegate_testkit::servers::{ServerBinary, available};

/// Returns the programs that a scenario runs on: one, not the same for all scenarios, or in a soak each.
fn binaries(scenario: &str) -> Vec<ServerBinary> {
    let mut all = available().unwrap();
    if rounds() == 1 {
        let one = scenario.len() % all.len();
        all = vec![all.swap_remove(one)];
    }
    all
}
