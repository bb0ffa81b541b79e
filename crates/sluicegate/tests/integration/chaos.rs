//! Chaos: every fault of a store happens under load to real servers. An auditor checks the admitted units against the
//! promises of the limits, in every interval.
//!
//! Each scenario prints a line with its measurements, for `docs/guarantees.md`. With `SLUICEGATE_SOAK=10` each fault
//! happens ten times in a row, to every available kind of server.

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

/// Returns the programs that a scenario runs on: one, which differs between scenarios, or in a soak all.
fn binaries(scenario: &str) -> Vec<ServerBinary> {
    let mut all = available().unwrap();
    if rounds() == 1 {
        let one = scenario.len() % all.len();
        all = vec![all.swap_remove(one)];
    }
    all
}
