//! The cap on keys is never exceeded, and the loss at the cap is bounded and reported.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Clock, Decision, Limit, ManualClock, OpenOptions, Request, RetryAfter, Store, Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore, Overflow};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000).unwrap()))
}

fn store(most: usize, overflow: Overflow, clock: &Arc<ManualClock>) -> MemoryStore {
    let most = NonZeroUsize::new(most).unwrap();
    MemoryStore::builder().max_keys(most).overflow(overflow).clock(Arc::clone(clock)).build()
}

fn open(store: &MemoryStore, name: &str, specs: &[&str]) -> MemoryLimit {
    store.open(Limit::new(name, specs).unwrap(), OpenOptions::default())
}

fn check(handle: &MemoryLimit, key: &str) -> Decision {
    handle.decide(Request::check(key.as_bytes())).unwrap()
}

#[test]
fn a_flood_of_keys_never_exceeds_the_cap() {
    for specs in
        [&["token_bucket 1/h burst 5"][..], &["fixed_window 3/h", "sliding_log 3/h", "gcra 1/h"]]
    {
        let clock = clock();
        let store = store(1_000, Overflow::Evict, &clock);
        let limit = open(&store, "flood", specs);
        for key in 0..20_000 {
            assert!(check(&limit, &key.to_string()).is_allowed());
            if key % 100 == 0 {
                assert!(store.stats().keys <= 1_000);
            }
        }
        let stats = store.stats();
        assert!(stats.keys > 900 && stats.keys <= 1_000, "{stats:?}");
        assert_eq!(stats.evicted_live, (20_000 * specs.len() - stats.keys) as u64);
    }
}

#[test]
fn a_fresh_key_goes_before_a_live_one() {
    let clock = clock();
    let store = store(10, Overflow::Evict, &clock);
    let limit = open(&store, "x", &["token_bucket 1/s burst 100"]);
    let _ = check(&limit, "soon fresh");
    for key in 0..9 {
        for _ in 0..50 {
            let _ = check(&limit, &key.to_string());
        }
    }
    clock.advance(Duration::from_secs(1));
    let _ = check(&limit, "new");
    assert_eq!((store.stats().evicted_live, store.stats().keys), (0, 10));
    for key in 0..9 {
        let left = check(&limit, &key.to_string()).remaining();
        assert_eq!(left, Some(50), "key {key} kept what it had consumed");
    }
}

#[test]
fn of_live_keys_the_least_used_goes() {
    let clock = clock();
    let store = store(8, Overflow::Evict, &clock);
    let limit = open(&store, "x", &["token_bucket 1/s burst 100"]);
    for key in 0..8 {
        for _ in 0..10 + key {
            let _ = check(&limit, &key.to_string());
        }
    }
    let _ = check(&limit, "new");
    assert_eq!(store.stats().evicted_live, 1);
    assert_eq!(check(&limit, "0").remaining(), Some(99), "it has used nothing any more");
    assert_eq!(check(&limit, "7").remaining(), Some(100 - 18));
    assert_eq!(check(&limit, "1").remaining(), Some(100 - 12));
}

#[test]
fn an_exhausted_key_that_is_nearly_fresh_stays_before_one_that_was_used_once() {
    let clock = clock();
    let store = store(8, Overflow::Evict, &clock);
    let limit = open(&store, "x", &["fixed_window 5/h"]);
    while check(&limit, "exhausted").is_allowed() {}
    clock.advance(Duration::from_secs(3_540));
    for key in 0..100 {
        assert!(check(&limit, &key.to_string()).is_allowed());
    }
    assert!(check(&limit, "exhausted").is_denied());
    assert_eq!(store.stats().evicted_live, 93);
}

#[test]
fn a_table_that_fills_the_store_makes_room_for_another() {
    for overflow in [Overflow::Evict, Overflow::Deny] {
        let clock = clock();
        let store = store(500, overflow, &clock);
        let full = open(&store, "full", &["gcra 1/s"]);
        for key in 0..500 {
            assert!(check(&full, &key.to_string()).is_allowed());
        }
        let other = open(&store, "other", &["fixed_window 5/h"]);
        assert!(check(&other, "a").is_allowed(), "{overflow:?}");
        assert_eq!((store.stats().keys, store.stats().evicted_live), (500, 1));
    }
}

#[test]
fn new_keys_of_many_threads_are_all_let_in_where_others_can_go() {
    for most in [40, 5_000] {
        let clock = clock();
        let store = store(most, Overflow::Evict, &clock);
        let flooded = open(&store, "flooded", &["token_bucket 1/h burst 5"]);
        for key in 0..most {
            assert!(check(&flooded, &key.to_string()).is_allowed());
        }
        for round in 0..100 {
            // A new limit's shards are empty, so it must evict from the other limit's.
            let name = format!("fresh-{round}");
            let fresh = open(&store, &name, &["token_bucket 1/h burst 5"]);
            let several = open(&store, "both", &["fixed_window 9/h", "sliding_log 9/h"]);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (_store, fresh, several) = (&store, &fresh, &several);
                    scope.spawn(move || {
                        for key in 0..20 {
                            let key = format!("{round} {thread} {key}");
                            assert!(check(fresh, &key).is_allowed(), "{key} of {most}");
                            assert!(check(several, &key).is_allowed(), "{key} of {most}");
                        }
                    });
                }
            });
        }
        assert!(store.stats().keys <= most);
    }
}

#[test]
fn a_strict_store_turns_new_keys_away_and_says_so() {
    let clock = clock();
    let store = store(4, Overflow::Deny, &clock);
    let limit = open(&store, "x", &["token_bucket 1/s burst 5"]);
    for key in ["a", "b", "c", "d"] {
        assert!(check(&limit, key).is_allowed());
    }
    let turned_away = check(&limit, "e");
    assert!(turned_away.is_denied() && turned_away.warnings().full);
    assert_eq!((turned_away.binding(), turned_away.granted()), (None, 0));
    assert_eq!(turned_away.policy(0).unwrap().remaining(), Some(5), "nothing was charged");
    let RetryAfter::After(wait) = turned_away.retry_after() else {
        panic!("{turned_away:?}");
    };
    assert_eq!(wait, Duration::from_secs(1));
    assert!(check(&limit, "a").is_allowed(), "known keys go on");
    clock.advance(wait);
    assert!(check(&limit, "e").is_allowed());
    assert_eq!((store.stats().keys, store.stats().evicted_live), (4, 0));
}

#[test]
fn without_room_for_all_policies_nothing_is_charged() {
    let clock = clock();
    let store = store(5, Overflow::Deny, &clock);
    let limit = open(&store, "x", &["gcra 1/h burst 5", "sliding_log 3/h"]);
    assert!(check(&limit, "a").is_allowed());
    assert!(check(&limit, "b").is_allowed());
    for _ in 0..3 {
        let turned_away = check(&limit, "c");
        assert!(turned_away.is_denied() && turned_away.warnings().full);
        assert_eq!(turned_away.policy(1).unwrap().remaining(), Some(3));
    }
    assert_eq!(store.stats().keys, 4);
    assert_eq!(check(&limit, "a").policy(1).unwrap().remaining(), Some(1));
}

#[test]
fn a_shadow_without_room_refuses_nobody() {
    let clock = clock();
    let store = store(3, Overflow::Deny, &clock);
    let limit = open(&store, "x", &["gcra 1/h burst 5", "sliding_log 3/h shadow"]);
    assert!(check(&limit, "a").is_allowed());
    let second = check(&limit, "b");
    assert!(second.is_allowed() && second.warnings().full);
    assert_eq!(store.stats().keys, 3);
}

#[test]
fn a_denied_request_evicts_nobody() {
    let clock = clock();
    let store = store(4, Overflow::Evict, &clock);
    let limit = open(&store, "x", &["gcra 1/h burst 5", "sliding_log 0/h"]);
    let other = open(&store, "y", &["gcra 1/h burst 5"]);
    for key in ["a", "b", "c", "d"] {
        assert!(check(&other, key).is_allowed());
    }
    for key in 0..100 {
        assert!(check(&limit, &key.to_string()).is_denied());
    }
    assert_eq!((store.stats().evicted_live, store.stats().keys), (0, 4));
    assert!(clock.now() > Timestamp::EPOCH);
}
