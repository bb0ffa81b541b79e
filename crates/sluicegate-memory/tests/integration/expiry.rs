//! Removal of states that equal a fresh key's doesn't change any answer.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Costs, Hold, HoldId, Limit, ManualClock, OnExpiry, OpenOptions, Operation, Request, Store,
    TimeSource, Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};

const START: u64 = 1_700_000_000_000_000;

fn set_up() -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START).unwrap()));
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    (clock, store)
}

fn open(store: &MemoryStore, specs: &[&str], time: TimeSource) -> MemoryLimit {
    store.open(Limit::new("x", specs).unwrap(), OpenOptions::default().time(time))
}

/// Held records must outlive the end of the hold. If they were swept then, nothing would be
/// returned.
#[test]
fn what_is_to_be_returned_outlives_its_end_as_long_as_that_is_of_use() {
    let (clock, store) = set_up();
    let limit = Limit::new("x", ["fixed_window 10/h"]).unwrap();
    let limit = store.open(limit.with_on_expiry(OnExpiry::Return), OpenOptions::default());
    let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Duration::from_secs(1) };
    let costs = Costs::Each(&[4]);
    assert!(limit.decide(Request::check(b"a").costs(costs).hold(&hold)).unwrap().is_allowed());
    let left = || limit.decide(Request::new(Operation::Peek, b"a")).unwrap().remaining();
    assert_eq!(left(), Some(6));
    for _ in 0..59 {
        clock.advance(Duration::from_secs(60));
        store.purge();
        assert_eq!(left(), Some(10));
    }
    // A denial writes the returned units, and the record is gone.
    let denied = limit.decide(Request::check(b"a").costs(Costs::Each(&[11]))).unwrap();
    assert_eq!((denied.is_denied(), denied.remaining()), (true, Some(10)));
    let keys = store.stats().keys;
    clock.advance(Duration::from_secs(3_600));
    store.purge();
    assert!(keys > 0 && store.stats().keys == 0, "{keys}");
}

#[test]
fn new_keys_push_out_those_that_are_fresh() {
    let (clock, store) = set_up();
    let limit = open(&store, &["token_bucket 1/s burst 5"], TimeSource::Store);
    for round in 0..20 {
        for key in 0..5_000 {
            let key = format!("{round} {key}");
            assert!(limit.decide(Request::check(key.as_bytes())).unwrap().is_allowed());
        }
        clock.advance(Duration::from_secs(60));
    }
    let stats = store.stats();
    assert!(stats.keys < 12_000, "{stats:?} after 100,000 keys of which 5,000 are live");
    assert_eq!(stats.evicted_live, 0);
}

/// This also holds if the shard would have to grow for the new key, after any number of others.
#[test]
fn what_a_new_key_pushes_out_takes_no_room() {
    let clock = Arc::new(ManualClock::default());
    for others in 1..60_u32 {
        // With this cap the keys share a shard.
        let most = 100.try_into().unwrap();
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).max_keys(most).build();
        let limit = open(&store, &["token_bucket 1/s burst 5"], TimeSource::Store);
        for key in 0..others {
            assert!(limit.decide(Request::check(&key.to_le_bytes())).unwrap().is_allowed());
        }
        clock.advance(Duration::from_secs(60));
        assert!(limit.decide(Request::check(b"new")).unwrap().is_allowed());
        clock.advance(Duration::from_secs(60));
        store.purge();
        assert_eq!(store.stats().keys, 0, "{others} others");
    }
}

#[test]
fn a_purge_takes_what_is_fresh_and_gives_the_memory_back() {
    let (clock, store) = set_up();
    let specs = [
        "gcra 1/min",
        "fixed_window 5/h",
        "sliding_log 5/h",
        "sliding_counter 9/h",
        "warmup 5/s over 10s",
    ];
    let limit = open(&store, &specs, TimeSource::Store);
    let empty = store.stats().bytes;
    for key in 0..3_000_u32 {
        let _ = limit.decide(Request::check(&key.to_le_bytes())).unwrap();
    }
    assert_eq!(store.stats().keys, 15_000);
    assert_eq!(store.purge(), 0);
    clock.advance(Duration::from_secs(120));
    assert_eq!(store.purge(), 6_000);
    clock.advance(Duration::from_secs(10_800));
    assert_eq!(store.purge(), 9_000);
    let stats = store.stats();
    assert_eq!((stats.keys, stats.bytes), (0, empty));
}

#[test]
fn sweeping_on_gets_everywhere() {
    let (clock, store) = set_up();
    let limit = open(&store, &["gcra 1/min"], TimeSource::Store);
    for key in 0..3_000_u32 {
        let _ = limit.decide(Request::check(&key.to_le_bytes())).unwrap();
    }
    clock.advance(Duration::from_secs(3_600));
    let removed: usize = (0..1_000).map(|_| store.sweep_some()).sum();
    assert_eq!((removed, store.stats().keys), (3_000, 0));
}

#[test]
fn a_denied_or_peeked_request_for_a_new_key_leaves_nothing() {
    let (_, store) = set_up();
    for specs in [&["token_bucket 0/s"][..], &["gcra 5/s", "sliding_log 0/s"]] {
        let limit = open(&store, specs, TimeSource::Store);
        assert!(limit.decide(Request::check(b"a")).unwrap().is_denied());
        let peek = Request::new(Operation::Peek, b"b");
        let _ = limit.decide(peek).unwrap();
        let refund = Request::new(Operation::Refund, b"c");
        let _ = limit.decide(refund).unwrap();
    }
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn a_thread_that_read_the_clock_a_while_ago_meets_no_forgotten_key() {
    let (clock, store) = set_up();
    let limit = open(&store, &["token_bucket 1/s burst 1"], TimeSource::Store);
    let before = store.now();
    assert!(limit.decide_at(Request::check(b"a"), before).unwrap().is_allowed());
    clock.advance(Duration::from_secs(2));
    assert_eq!(store.purge(), 0, "fresh for a second only");
    assert!(limit.decide_at(Request::check(b"a"), before).unwrap().is_denied());
}

#[test]
fn a_state_stays_while_any_handle_needs_it() {
    let (clock, store) = set_up();
    let slow = open(&store, &["token_bucket 1/h burst 5"], TimeSource::Store);
    let fast = open(&store, &["token_bucket 1/s burst 5"], TimeSource::Store);
    assert!(fast.decide(Request::check(b"a")).unwrap().is_allowed());
    clock.advance(Duration::from_secs(60));
    assert_eq!(store.purge(), 0);
    drop(slow);
    assert_eq!(store.purge(), 1);
}

#[test]
fn smooth_that_starts_empty_is_kept_for_a_day() {
    let (clock, store) = set_up();
    let limit = open(&store, &["smooth 5/s burst 1s start empty"], TimeSource::Store);
    let _ = limit.decide(Request::check(b"a")).unwrap();
    clock.advance(Duration::from_secs(82_800));
    assert_eq!(store.purge(), 0);
    clock.advance(Duration::from_secs(7_200));
    assert_eq!(store.purge(), 1);
}

#[test]
fn injected_time_expires_nothing_and_a_run_goes_with_its_last_handle() {
    let (clock, store) = set_up();
    let run = || TimeSource::Injected { run: "replay 1".to_owned() };
    let limit = open(&store, &["gcra 1/s"], run());
    let again = open(&store, &["gcra 1/s"], run());
    let at = |micros| Timestamp::from_micros(micros).unwrap();
    let request = Request::check(b"a").at(at(1_000_000));
    assert!(limit.decide(request).unwrap().is_allowed());
    clock.advance(Duration::from_secs(604_800));
    for key in 0..1_000_u32 {
        let key = key.to_le_bytes();
        let _ = limit.decide(Request::check(&key).at(at(9_000_000_000))).unwrap();
    }
    store.purge();
    assert_eq!(store.stats().keys, 1_001);
    assert!(again.decide(request).unwrap().is_denied(), "handles of a run share states");
    drop(limit);
    assert_eq!(store.stats().keys, 1_001);
    drop(again);
    assert_eq!(store.stats().keys, 0);
}
