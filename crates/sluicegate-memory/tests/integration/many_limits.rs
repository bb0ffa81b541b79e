//! Many limits in one store: each has capacity for its keys, and unused ones take next to nothing.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_core::{
    Ban, Decision, Error, Hold, HoldId, Limit, ManualClock, OpenOptions, Operation, Request,
    RequestError, RequestErrorKind, RetryAfter, Store, Timestamp,
};
use sluicegate_memory::{Builder, MemoryLimit, MemoryStore, Overflow};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000).unwrap()))
}

fn builder() -> Builder {
    MemoryStore::builder().clock(clock())
}

fn number(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

fn limit(name: &str, specs: &[&str]) -> Limit {
    Limit::new(name, specs).unwrap()
}

fn open(store: &MemoryStore, name: &str, specs: &[&str]) -> MemoryLimit {
    store.open(limit(name, specs), OpenOptions::default())
}

fn check(handle: &MemoryLimit, key: &str) -> Decision {
    handle.decide(Request::check(key.as_bytes())).unwrap()
}

/// Before, an empty table took 16,640 bytes, so that many limits left no memory for a key.
#[test]
fn many_limits_do_not_deny_every_key() {
    const BUCKET: &str = "token_bucket 10/s burst 20";
    let bounded = |bytes| builder().max_bytes(number(bytes)).build();
    for (store, limits, specs) in [
        (bounded(1_000_000), 61, &[BUCKET][..]),
        (builder().build(), 7_700, &[BUCKET, "fixed_window 9/h"]),
        (bounded(10_000), 1, &[BUCKET]),
        (builder().build(), 100_000, &[BUCKET]),
    ] {
        let opened: Vec<_> = (0..limits).map(|it| open(&store, &format!("l{it}"), specs)).collect();
        assert_eq!(store.stats().bytes, 0, "unused limits take no capacity");
        for limit in &opened {
            assert!(check(limit, "a").is_allowed());
        }
        let keys = limits * specs.len();
        assert_eq!((store.stats().keys, store.stats().evicted_live), (keys, 0));
    }
}

/// `config check` reports the smallest caps, so one byte less must hold fewer keys.
#[test]
fn the_smallest_caps_hold_one_key_of_each_limit() {
    let limits = [
        limit("a", &["token_bucket 1/h burst 5"]),
        limit("b", &["fixed_window 5/h", "sliding_log 5/h", "gcra 1/h burst 9"]),
        limit("c", &["sliding_window 5/h slices 60", "sliding_counter 5/h"]),
        limit("d", &["smooth 1/s start full", "warmup 5/s over 10s", "fixed_window 5/h shadow"]),
        limit("e", &["concurrency 5 hold 1h"]),
        limit("f", &["concurrency 5 hold 1h", "token_bucket 1/h burst 5"]),
    ];
    let smallest = MemoryStore::smallest_for(&limits);
    let ask = |keys: usize, bytes: usize| {
        let store = builder().overflow(Overflow::Deny).max_keys(number(keys));
        let store = store.max_bytes(number(bytes)).build();
        let limits: Vec<_> =
            limits.iter().map(|it| store.open(it.clone(), OpenOptions::default())).collect();
        let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Duration::from_secs(3_600) };
        let allows = |handle: &MemoryLimit| {
            let holds = sluicegate_core::OpenedLimit::limit(handle).has_permits();
            let request = Request::check(b"key");
            let request = if holds { request.hold(&hold) } else { request };
            let decision = handle.decide(request);
            decision.is_ok_and(|decision| decision.is_allowed() && !decision.warnings().full)
        };
        limits.iter().map(allows).collect::<Vec<_>>()
    };
    assert_eq!(ask(smallest.max_keys, smallest.max_bytes), [true; 6]);
    assert!(ask(smallest.max_keys - 1, smallest.max_bytes).contains(&false));
    assert!(ask(smallest.max_keys, smallest.max_bytes - 1).contains(&false));
}

#[test]
fn a_limit_that_does_not_fit_gets_an_error_until_others_are_dropped() {
    for overflow in [Overflow::Evict, Overflow::Deny] {
        let store = builder().max_keys(number(3)).overflow(overflow).build();
        let first = open(&store, "first", &["gcra 1/s", "fixed_window 9/h"]);
        let second = open(&store, "second", &["gcra 1/s", "fixed_window 9/h"]);
        assert!(check(&first, "a").is_allowed());
        let error = second.decide(Request::check(b"a")).unwrap_err();
        let kind = error.as_request().map(RequestError::kind);
        assert_eq!(kind, Some(RequestErrorKind::StoreTooSmall));
        let message = error.to_string();
        assert!(message.contains("`second`") && message.contains("4 keys"), "{message}");
        assert!(message.contains("`max_keys` is 3"), "{message}");
        drop(first);
        assert!(check(&second, "a").is_allowed() || overflow == Overflow::Deny);
    }
}

/// Before, a key that needed several slots was denied if each slot belonged to a limit that holds
/// little.
#[test]
fn a_fresh_key_that_needs_several_slots_evicts_what_there_is() {
    for keys in [["a", "b", "c"], ["x", "a", "b"]] {
        let store = builder().max_keys(number(4)).build();
        let ban: Ban = "3/h for 1h".parse().unwrap();
        let banning = |name: &str| {
            let limit = limit(name, &["fixed_window 1/h"]).banning(ban);
            store.open(limit, OpenOptions::default())
        };
        let (one, two) = (banning("one"), banning("two"));
        let several = open(&store, "several", &["token_bucket 1/h burst 5", "sliding_log 5/h"]);
        for _ in 0..3 {
            for key in keys {
                let _ = (check(&one, key), check(&two, key));
            }
        }
        for key in ["x", "y", "x", "z"] {
            let decision = check(&several, key);
            assert!(decision.is_allowed(), "{key} after {keys:?}: {decision:?}");
            assert!(store.stats().keys <= 4);
        }
    }
}

/// Before, no state could be evicted if one subject had all states of all limits.
#[test]
fn a_key_of_one_limit_makes_room_where_it_is_the_only_key_of_all() {
    let store = builder().max_keys(number(50)).build();
    let limits: Vec<_> = (0..25)
        .map(|it| open(&store, &format!("l{it}"), &["gcra 1/h", "fixed_window 1/h"]))
        .collect();
    for round in 0..3 {
        for limit in &limits {
            let _ = check(limit, "the only key");
        }
        let extra = open(&store, "l0", &["gcra 1/h as other", "sliding_log 9/h"]);
        let decision = extra.decide(Request::check(b"the only key"));
        let is_known = |error: &Error| {
            error.as_request().is_some_and(|it| it.kind() == RequestErrorKind::StoreTooSmall)
        };
        match decision {
            Ok(decision) => assert!(decision.is_allowed(), "round {round}: {decision:?}"),
            Err(error) => assert!(is_known(&error), "{error}"),
        }
    }
    let fewer = builder().max_keys(number(60)).build();
    let limits: Vec<_> = (0..29)
        .map(|it| open(&fewer, &format!("l{it}"), &["gcra 1/h", "fixed_window 1/h"]))
        .collect();
    assert!(
        limits.iter().all(|limit| check(limit, "k").is_allowed() && check(limit, "j").is_allowed())
    );
    assert_eq!(fewer.stats().keys, 60);
}

/// Before, the denial reported `Retry-After: 1`, but retries never succeeded.
#[test]
fn a_denial_of_a_full_store_binds_no_policy_and_tells_a_retry_only_if_it_knows_one() {
    let store = builder().max_keys(number(4)).overflow(Overflow::Deny).build();
    let windows = open(&store, "windows", &["fixed_window 5/h"]);
    let other = open(&store, "other", &["fixed_window 5/h"]);
    let large = open(&store, "large", &["token_bucket 0/h burst 5"]);
    for key in ["a", "b"] {
        assert!(check(&windows, key).is_allowed() && check(&large, key).is_allowed());
    }
    let full = check(&windows, "c");
    assert!(full.is_store_full() && full.binding().is_none());
    assert!(full.policies().all(|policy| policy.is_admitted()));
    assert!(
        matches!(full.retry_after(), RetryAfter::After(wait) if wait <= Duration::from_secs(3_600))
    );
    let never = check(&large, "c");
    assert!(never.is_store_full());
    assert_eq!(never.retry_after(), RetryAfter::Never, "nothing there expires");
    // Within its share, the limit evicts states of limits beyond theirs.
    assert!(check(&other, "a").is_allowed());
    let denied = other.decide(Request::new(Operation::Peek, b"z")).unwrap();
    assert!(!denied.is_store_full());
}

#[test]
fn limits_that_are_opened_dropped_and_asked_by_many_threads_stay_within_the_caps() {
    for overflow in [Overflow::Evict, Overflow::Deny] {
        let clock = clock();
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).max_keys(number(400));
        let store = store.max_bytes(number(60_000)).overflow(overflow).build();
        let (left, is_over) = (AtomicUsize::new(4), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (store, clock, left, is_over) = (&store, &clock, &left, &is_over);
                scope.spawn(move || {
                    let mut kept: Vec<MemoryLimit> = Vec::new();
                    for round in 0..3_000_usize {
                        let turn = round.wrapping_mul(7).wrapping_add(thread * 13);
                        let name = format!("l{}", turn % 40);
                        let specs: &[&str] = match turn % 3 {
                            0 => &["token_bucket 9/min burst 5"],
                            1 => &["fixed_window 5/min", "sliding_log 99/h"],
                            _ => &["gcra 1/s", "sliding_window 9/h slices 60", "fixed_window 7/s"],
                        };
                        let limit = open(store, &name, specs);
                        for key in 0..6 {
                            let key = format!("{}", (turn + key) % 90);
                            let operation = match (turn + round) % 11 {
                                0 => Operation::Reset,
                                1 => Operation::Charge,
                                _ => Operation::Check,
                            };
                            let _ = limit.decide(Request::new(operation, key.as_bytes())).unwrap();
                        }
                        let stats = store.stats();
                        assert!(stats.keys <= 400 && stats.bytes <= 60_000, "{stats:?}");
                        kept.push(limit);
                        if kept.len() > turn % 9 {
                            drop(kept.swap_remove(turn % kept.len()));
                        }
                        clock.advance(Duration::from_micros(500));
                    }
                    drop(kept);
                    if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                        is_over.store(true, Ordering::SeqCst);
                    }
                });
            }
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    store.sweep_some();
                    std::thread::yield_now();
                }
            });
        });
        clock.advance(Duration::from_secs(259_200));
        store.purge();
        let stats = store.stats();
        assert_eq!((stats.keys, stats.bytes), (0, 0), "{overflow:?}");
        let name = "l7";
        assert!(check(&open(&store, name, &["gcra 1/s"]), "a").is_allowed());
    }
}
