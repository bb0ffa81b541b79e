//! Callers that give up at random, and many concurrent callers.

use sluicegate_testkit::servers::{Server, fresh_prefix};

use crate::chaos::binaries;
use crate::chaos::load::{Load, Manner, rounds};

#[test]
fn calls_that_are_dropped_at_random_admit_nothing_too_much() {
    for binary in binaries("dropped") {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let prefix = fresh_prefix("dropped");
        let load =
            Load::begin_with("dropped calls", &server.url(), &prefix, Manner::Cancelling, |_| ());
        for _ in 0..3 * rounds() {
            load.reaches_its_limits();
        }
        load.recovers();
        // Also callers that give up while shares decide, and while the store is charged for units that these admitted.
        for _ in 0..rounds() {
            server.pause().unwrap();
            load.awaits_errors();
            server.resume().unwrap();
            load.recovers();
            load.reaches_its_limits();
        }
        load.end().assert_exact();
    }
}

#[test]
fn ten_thousand_tasks_at_once_are_admitted_nothing_too_much_and_none_waits_too_long() {
    for binary in binaries("crowd") {
        let server = Server::start_with(&binary, &[]).unwrap();
        let mut load = Load::begin("10,000 tasks", &server.url());
        for _ in 0..rounds() {
            load.crowd(10_000);
            load.recovers();
        }
        load.reaches_its_limits();
        load.end().assert_exact();
    }
}
