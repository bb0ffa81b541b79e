//! Leases, simulated. Several processes use the real layer, with the real kernels or scripts. The network delays and
//! loses messages, clocks differ, and processes crash. An auditor checks every spend.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod auditor;
mod network;
#[allow(dead_code, reason = "other tests use the rest of this module")]
#[path = "../../../sluicegate-testkit/tests/integration/scripted.rs"]
mod scripted;
mod server;
mod world;

use sluicegate_conformance::schedules::each;

use server::FAULTS;
use world::{Counts, World};

#[test]
fn no_interval_has_more_than_the_limit_whatever_happens() {
    let mut counts = Counts::default();
    let mut turn = 0_u64;
    each("lease simulation", 1_500, |seed| {
        turn += 1;
        let mut world = World::new(seed, turn.is_multiple_of(16), None);
        world.run();
        world.audit().unwrap_or_else(|fault| panic!("{fault}\n{}", world.about()));
        counts += world.counts;
    });
    println!("{counts:?}");
    let Counts { local, exact, granted, returned, lost, crashes, stepped, late } = counts;
    for count in [local, exact, granted, returned, lost, crashes, stepped, late] {
        assert!(count > turn / 2, "{counts:?}");
    }
}

#[test]
fn planted_faults_are_found() {
    for fault in FAULTS {
        let mut dice = sluicegate_conformance::schedules::Dice::named("planted faults");
        let found = (1..=4_000).find(|_| {
            let mut world = World::new(dice.next(), false, Some(fault));
            world.run();
            world.audit().is_err()
        });
        println!("{fault:?}: found by seed {found:?}");
        assert!(found.is_some(), "{fault:?}");
    }
}
