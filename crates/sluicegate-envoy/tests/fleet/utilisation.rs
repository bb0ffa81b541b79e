//! A fleet uses nearly all of its limit.

use crate::simulation::{Fleet, Terms};

pub(crate) const FLEET: Terms = Terms {
    rate: 20_000,
    burst: 200_000,
    proxies: 200,
    replicas: 2,
    demand: 200,
    moves: 0,
    cuts: 0,
    crashes: 0,
    delay: 20_000,
    others: 0,
    fault: None,
};

/// Returns the admitted part of the limit, in thousandths, for some moves of the demand.
///
/// The 15 s that begin 15 s after each move count.
pub(crate) fn after_moves(terms: Terms, moves: usize) -> Vec<u64> {
    let mut fleet = Fleet::new(terms, 7);
    fleet.run(30);
    let parts = (0..moves).map(|_| {
        fleet.move_demand();
        fleet.run(15);
        fleet.auditor.take_admitted();
        fleet.run(15);
        fleet.auditor.take_admitted() * 1_000 / (15 * terms.rate)
    });
    let parts: Vec<u64> = parts.collect();
    assert_eq!(fleet.auditor.over, 0);
    assert!(terms.fault.is_some() || fleet.longest_wait() <= 10_000_000);
    parts
}

#[test]
fn from_fifteen_seconds_after_a_move_nine_tenths_of_the_limit_are_used() {
    for part in after_moves(FLEET, 3) {
        assert!(part >= 900, "{part}");
    }
}

#[test]
fn a_demand_just_above_the_limit_is_served_nearly_as_well() {
    for part in after_moves(Terms { demand: 120, ..FLEET }, 3) {
        assert!(part >= 870, "{part}");
    }
}

/// A proxy gets a message for each report, and few more.
#[test]
fn a_proxy_gets_few_messages() {
    let mut fleet = Fleet::new(FLEET, 11);
    fleet.run(60);
    let reports = 12 * FLEET.proxies as u64;
    assert!(10 * fleet.answers <= 13 * reports, "{} messages for {reports} reports", fleet.answers);
}
