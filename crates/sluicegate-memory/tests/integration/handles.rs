//! The handles of limits share states, and refuse unsuitable requests.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Limit, ManualClock, OpenOptions, Operation, Request, RequestError, RequestErrorKind, Store,
    TimeSource, Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};

fn open(store: &MemoryStore, name: &str, specs: &[&str], time: TimeSource) -> MemoryLimit {
    store.open(Limit::new(name, specs).unwrap(), OpenOptions::default().time(time))
}

fn set_up() -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000).unwrap()));
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    (clock, store)
}

#[test]
fn new_numbers_keep_what_was_consumed() {
    let (clock, store) = set_up();
    let before = open(&store, "api", &["token_bucket 10/s burst 10"], TimeSource::Store);
    for _ in 0..8 {
        assert!(before.decide(Request::check(b"a")).unwrap().is_allowed());
    }
    drop(before);
    // 8 units of deficit, now counted in other ticks and drained at 3/s.
    let after = open(&store, "api", &["token_bucket 3/s burst 9"], TimeSource::Store);
    assert!(after.decide(Request::check(b"a")).unwrap().is_allowed());
    assert!(after.decide(Request::check(b"a")).unwrap().is_denied());
    clock.advance(Duration::from_secs(1));
    assert_eq!(after.decide(Request::check(b"a")).unwrap().remaining(), Some(2));
}

#[test]
fn an_added_policy_starts_fresh_and_moves_nothing() {
    let (_, store) = set_up();
    let one = open(&store, "api", &["gcra 1/h burst 3"], TimeSource::Store);
    assert!(one.decide(Request::check(b"a")).unwrap().is_allowed());
    let two = open(&store, "api", &["fixed_window 9/h", "gcra 1/h burst 3"], TimeSource::Store);
    let decision = two.decide(Request::check(b"a")).unwrap();
    let left: Vec<_> = decision.policies().map(|outcome| outcome.remaining()).collect();
    assert_eq!(left, [Some(8), Some(1)]);
}

#[test]
fn a_reset_forgets_what_a_limit_counted_under_other_policies() {
    let (_, store) = set_up();
    let ask = |handle: &MemoryLimit, operation, also: &[&[u8]]| {
        let request = Request::new(operation, b"a").also(also);
        handle.decide(request).unwrap().is_allowed()
    };
    let specs = ["fixed_window 1/h as p", "sliding_log 1/d as q", "gcra 1/h"];
    let before = open(&store, "api", &specs, TimeSource::Store);
    let other_limit = open(&store, "other", &specs, TimeSource::Store);
    let run = TimeSource::Injected { run: "1".to_owned() };
    let other_time = open(&store, "api", &specs, run);
    let at = Timestamp::from_micros(5);
    let timed = Request::check(b"a").at(at.ok());
    assert!(ask(&before, Operation::Check, &[]) && ask(&other_limit, Operation::Check, &[]));
    assert!(other_time.decide(timed).unwrap().is_allowed());
    assert!(before.decide(Request::check(b"b")).unwrap().is_allowed());
    let after = open(&store, "api", &["fixed_window 1/d as p"], TimeSource::Store);
    let _ = ask(&after, Operation::Reset, &[]);
    assert_eq!(store.stats().keys, 9, "three policies each of another limit, time and subject");
    assert!(ask(&before, Operation::Check, &[]), "rolled back");

    // With several limits together, each forgets its own subject.
    let part = |name: &str, spec: &str| Limit::new(name, vec![spec]).unwrap();
    let both = Limit::together([part("door", "gcra 1/s"), part("api", "gcra 1/s")]).unwrap();
    let both = store.open(both, OpenOptions::default());
    let _ = ask(&both, Operation::Reset, &[b"b"]);
    assert!(!ask(&before, Operation::Check, &[]));
    assert!(before.decide(Request::check(b"b")).unwrap().is_allowed());
}

#[test]
fn limits_and_runs_count_apart() {
    let (_, store) = set_up();
    let run = |run: &str| TimeSource::Injected { run: run.to_owned() };
    let at = Some(Timestamp::from_micros(5).unwrap());
    for (name, time) in [("a", run("1")), ("a", run("2")), ("b", run("1"))] {
        let handle = open(&store, name, &["gcra 1/h"], time);
        let request = Request::check(b"key").at(at);
        assert!(handle.decide(request).unwrap().is_allowed());
        assert!(handle.decide(request).unwrap().is_denied());
    }
    let handle = open(&store, "a", &["gcra 1/h"], TimeSource::Store);
    assert!(handle.decide(Request::check(b"key")).unwrap().is_allowed());
}

#[test]
fn a_time_that_is_missing_or_misplaced_is_refused() {
    let (_, store) = set_up();
    let own = open(&store, "a", &["gcra 1/h"], TimeSource::Store);
    let injected = open(&store, "a", &["gcra 1/h"], TimeSource::Injected { run: "1".to_owned() });
    let timed = Request::check(b"key").at(Timestamp::EPOCH);
    for (handle, request, hint) in
        [(&own, timed, "leave `at` out"), (&injected, Request::check(b"key"), "set `at`")]
    {
        let error = handle.decide(request).unwrap_err();
        assert_eq!(error.as_request().map(RequestError::kind), Some(RequestErrorKind::Invalid));
        assert!(error.to_string().contains(hint), "{error}");
    }
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn any_bytes_are_a_key_of_their_own() {
    let (_, store) = set_up();
    let limit = open(&store, "a", &["gcra 1/h"], TimeSource::Store);
    let long = vec![b'x'; 1 << 20];
    let mut longer = long.clone();
    longer.push(0);
    for key in [&b""[..], b"\0", b"\0\0", b"a", b"a\0", b"{a}", &[0xff, 0xfe], &long, &longer] {
        assert!(limit.decide(Request::check(key)).unwrap().is_allowed());
        assert!(limit.decide(Request::check(key)).unwrap().is_denied());
    }
}

#[test]
fn a_batch_is_decided_in_its_order() {
    let (_, store) = set_up();
    let limit = open(&store, "a", &["gcra 1/h burst 2"], TimeSource::Store);
    let keys: Vec<Vec<u8>> = (0..100_u8).map(|key| vec![key % 30]).collect();
    let mut left = Vec::new();
    limit.decide_many(keys.iter().map(|key| Request::check(key)), |index, decision| {
        assert_eq!(index, left.len());
        left.push(decision.unwrap().is_allowed());
    });
    let expected: Vec<bool> = (0..100).map(|index| index < 60).collect();
    assert_eq!(left, expected);
}
