//! Runs the checks of all stores on a store of a hundred lines over read, compare-and-swap and
//! expiry.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use sluicegate_conformance::suite;
use sluicegate_core::{
    Limit, ManualClock, OpenOptions, OpenedLimit as _, Request, Store as _, StoreErrorKind,
    Timestamp,
};
use sluicegate_testkit::swap_store::{SwapStore, Table};

mod alone {
    use super::store;

    sluicegate_conformance::suite!(leases[store(0).0]);
}

mod when_swaps_lose {
    use super::store;

    sluicegate_conformance::suite!(leases[store(3).0]);
}

/// Returns a store in which every `conflict_each`-th swap loses, with its clock and its table.
fn store(conflict_each: u64) -> (SwapStore, Arc<ManualClock>, Table) {
    let clock = Arc::new(ManualClock::default());
    let table = Table::with_conflicts(Arc::clone(&clock), conflict_each);
    (SwapStore::new(table.clone(), Arc::clone(&clock)), clock, table)
}

#[test]
fn values_expire_when_they_equal_fresh_ones_and_not_before() {
    suite::block_on(async {
        let (store, clock, table) = store(5);
        suite::schedules_by_the_stores_clock_answer_like_the_model(&store, &clock).await;
        let before = table.len();
        clock.set(Timestamp::MAX);
        assert!(table.len() < before, "{before} keys");
    });
}

#[test]
fn a_decision_that_always_loses_is_given_up_and_nothing_is_charged() {
    let (store, _, table) = store(1);
    let limit = Limit::new("l", vec!["gcra 1/s"]).unwrap();
    let opened = store.open(limit, OpenOptions::default());
    let error = suite::block_on(opened.ask(Request::check(b"a")).wait()).unwrap_err();
    assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("nothing was charged"), "{error}");
    assert!(table.is_empty());
}
