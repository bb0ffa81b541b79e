//! The conformance suite of stores.

use std::sync::Arc;

use sluicegate_conformance::suite;
use sluicegate_core::{ManualClock, Timestamp};
use sluicegate_memory::MemoryStore;

sluicegate_conformance::suite!([MemoryStore::new()]);

#[test]
fn shares_are_leased_like_the_model() {
    suite::block_on(suite::shares_are_leased_like_the_model(&MemoryStore::new()));
}

#[test]
fn states_expire_when_they_equal_fresh_ones_and_not_before() {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    let check = suite::schedules_by_the_stores_clock_answer_like_the_model(&store, &clock);
    suite::block_on(check);
}
