//! Floods of keys: what they can't do to the keys that matter.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use sluicegate_core::{
    Cost, Costs, Decision, Limit, ManualClock, OpenOptions, Operation, Request, Store, Timestamp,
};
use sluicegate_memory::{Builder, MemoryLimit, MemoryStore, Overflow};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000).unwrap()))
}

fn builder(most: usize, clock: &Arc<ManualClock>) -> Builder {
    MemoryStore::builder().max_keys(NonZeroUsize::new(most).unwrap()).clock(Arc::clone(clock))
}

fn bytes(most: usize) -> NonZeroUsize {
    NonZeroUsize::new(most).unwrap()
}

fn open(store: &MemoryStore, name: &str, specs: &[&str]) -> MemoryLimit {
    store.open(Limit::new(name, specs).unwrap(), OpenOptions::default())
}

fn check(handle: &MemoryLimit, key: &str) -> Decision {
    handle.decide(Request::check(key.as_bytes())).unwrap()
}

/// Checks the key until it is denied.
fn exhaust(handle: &MemoryLimit, key: &str) {
    while check(handle, key).is_allowed() {}
}

fn flood(handle: &MemoryLimit, keys: usize) {
    for key in 0..keys {
        let _ = check(handle, &format!("flood {key}"));
    }
}

fn freed(handle: &MemoryLimit, keys: usize) -> usize {
    let key = |key: usize| Request::new(Operation::Peek, key.to_string().leak().as_bytes());
    (0..keys).filter(|&number| handle.decide(key(number)).unwrap().is_allowed()).count()
}

/// Policies of each kernel, each with a limit that one request doesn't exhaust.
const LIMITS_OF_TWO_AND_MORE: [&[&str]; 9] = [
    &["fixed_window 2/h"],
    &["fixed_window 5/d calendar UTC"],
    &["token_bucket 5/h"],
    &["sliding_log 5/h"],
    &["sliding_window 5/h slices 60"],
    &["sliding_counter 5/h"],
    &["shaper 5/h queue 4"],
    &["fixed_window 5/h", "sliding_log 100/d", "gcra 1/min burst 50"],
    &["smooth 1/h burst 5h start full"],
];

#[test]
fn keys_used_once_free_no_exhausted_key_of_their_own_limit() {
    for specs in LIMITS_OF_TWO_AND_MORE {
        let is_smooth = specs[0].starts_with("smooth");
        // At these caps nearly all other keys are exhausted too.
        for most in [230, 1_000, 4_000] {
            let most = most * specs.len();
            let store = builder(most, &clock()).build();
            let limit = open(&store, "x", specs);
            (0..200).for_each(|key| exhaust(&limit, &key.to_string()));
            flood(&limit, 16 * most);
            // One request may exhaust a smooth policy, which goes into debt instead.
            if !is_smooth {
                assert_eq!(freed(&limit, 200), 0, "{specs:?} in {most}");
            }
            assert!(store.stats().keys <= most);
        }
    }
}

#[test]
fn keys_used_once_free_no_exhausted_key_of_another_limit() {
    for specs in LIMITS_OF_TWO_AND_MORE.iter().take(8) {
        for (flooded, most) in [("token_bucket 1/h", 600), ("sliding_log 5/h", 2_000)] {
            let most = most * specs.len();
            let store = builder(most, &clock()).build();
            let (limit, other) = (open(&store, "x", specs), open(&store, "y", &[flooded]));
            (0..200).for_each(|key| exhaust(&limit, &key.to_string()));
            flood(&other, 16 * most);
            assert_eq!(freed(&limit, 200), 0, "{specs:?} beside {flooded} in {most}");
            assert_eq!(store.stats().keys, most);
        }
    }
}

#[test]
fn keys_used_once_by_many_threads_free_no_exhausted_key() {
    let store = builder(2_000, &clock()).build();
    let limit = open(&store, "x", &["fixed_window 5/h"]);
    let other = open(&store, "y", &["token_bucket 5/h", "sliding_log 5/h"]);
    (0..200).for_each(|key| exhaust(&limit, &key.to_string()));
    (0..200).for_each(|key| exhaust(&other, &key.to_string()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (limit, other) = (&limit, &other);
            scope.spawn(move || {
                for key in 0..8_000 {
                    let _ = check(limit, &format!("flood {thread} {key}"));
                    let _ = check(other, &format!("flood {thread} {key}"));
                }
            });
        }
    });
    assert_eq!((freed(&limit, 200), freed(&other, 200)), (0, 0));
}

/// A limit within its share loses nothing, regardless of the load of other limits.
#[test]
fn a_limit_within_its_share_loses_nothing_to_floods_of_exhausted_keys() {
    let store = builder(900, &clock()).build();
    let names = ["login", "api", "search"];
    let [login, api, search] = names.map(|name| open(&store, name, &["fixed_window 3/h"]));
    for key in 0..300 {
        assert!(check(&login, &key.to_string()).is_allowed(), "used once, a third of the store");
    }
    for key in 0..5_000 {
        exhaust(&api, &key.to_string());
        exhaust(&search, &key.to_string());
    }
    for key in 0..300 {
        assert_eq!(check(&login, &key.to_string()).remaining(), Some(1), "key {key}");
    }
}

#[test]
fn a_strict_store_that_one_limit_has_filled_lets_new_keys_of_others_in() {
    let store = builder(1_000, &clock()).overflow(Overflow::Deny).build();
    let login = open(&store, "login", &["fixed_window 5/h"]);
    let api = open(&store, "api", &["token_bucket 5/h"]);
    flood(&api, 3_000);
    assert_eq!((store.stats().keys, store.stats().evicted_live), (1_000, 0));
    for key in 0..500 {
        assert!(check(&login, &key.to_string()).is_allowed(), "key {key}");
    }
    assert_eq!(store.stats().evicted_live, 500, "what the other limit held beyond its half");
    // Now both hold their share, and neither takes from the other.
    assert!((0..500).all(|key| check(&login, &format!("more {key}")).warnings().full));
    assert!((0..500).all(|key| check(&api, &format!("more {key}")).warnings().full));
    assert_eq!((store.stats().keys, store.stats().evicted_live), (1_000, 500));
    assert!((0..500).all(|key| check(&login, &key.to_string()).is_allowed()), "all are known");
}

#[test]
fn a_strict_store_takes_the_least_used_of_what_is_beyond_a_share() {
    let store = builder(1_000, &clock()).overflow(Overflow::Deny).build();
    let login = open(&store, "login", &["fixed_window 5/h"]);
    let api = open(&store, "api", &["fixed_window 5/h"]);
    (0..200).for_each(|key| exhaust(&api, &key.to_string()));
    flood(&api, 800);
    flood(&login, 500);
    assert_eq!((freed(&api, 200), store.stats().evicted_live), (0, 500));
}

#[test]
fn logs_take_no_more_bytes_than_there_may_be() {
    const MOST: usize = 4 << 20;
    for specs in [&["sliding_log 20000/d"][..], &["sliding_window 9999999/d slices 28800"]] {
        let clock = clock();
        let measured = measure(|| {
            let store = builder(1_000, &clock).max_bytes(bytes(MOST)).build();
            let limit = open(&store, "x", specs);
            let keys: Vec<String> = (0..40).map(|key: u32| key.to_string()).collect();
            for _ in 0..10_000 {
                clock.advance(Duration::from_secs(3));
                keys.iter().for_each(|key| drop(check(&limit, key)));
                assert!(store.stats().bytes <= MOST, "{:?}", store.stats());
            }
            assert!(store.stats().evicted_live > 0, "{specs:?}: all had room");
            assert!(store.stats().keys > 10, "{specs:?}: {:?}", store.stats());
        });
        // During a decision, its log may exist three times.
        let most = (MOST + 2 * 16 * 11_000) as u64;
        assert!(measured.bytes_max <= most, "{specs:?} took {} bytes", measured.bytes_max);
    }
}

/// A grown state is only evicted for states with more use.
#[test]
fn a_log_that_grows_takes_the_room_of_lesser_used_ones() {
    let store = builder(20_000, &clock()).max_bytes(bytes(1 << 20)).build();
    let limit = open(&store, "x", &["sliding_log 5/h"]);
    let large = open(&store, "y", &["sliding_log 50000/h"]);
    (0..50).for_each(|key| exhaust(&limit, &key.to_string()));
    flood(&limit, 20_000);
    let before = store.stats();
    assert!(before.keys < 20_000 && before.bytes > 1_000_000, "{before:?}");
    let clock_time = store.now();
    for micros in 0..20_000 {
        let now = Timestamp::from_micros(clock_time.as_micros() + micros).unwrap();
        let decision = large.decide_at(Request::check(b"large"), now).unwrap();
        assert!(decision.is_allowed(), "{micros}: {decision:?}");
    }
    assert!(store.stats().keys < before.keys && store.stats().bytes <= 1 << 20);
    assert_eq!(freed(&limit, 50), 0);
}

#[test]
fn a_log_that_outgrows_the_store_is_turned_away_and_keeps_what_it_has() {
    for overflow in [Overflow::Evict, Overflow::Deny] {
        let clock = clock();
        let store = builder(1_000, &clock).overflow(overflow).max_bytes(bytes(100_000)).build();
        let limit = open(&store, "x", &["sliding_log 50000/d"]);
        let mut admitted = 0;
        let turned_away = loop {
            clock.advance(Duration::from_micros(1));
            let decision = check(&limit, "a");
            if decision.is_denied() {
                break decision;
            }
            admitted += 1;
        };
        assert!(turned_away.warnings().full);
        assert!(admitted > 2_000, "{admitted} of 16 bytes each");
        let peek = limit.decide(Request::new(Operation::Peek, b"a")).unwrap();
        assert_eq!(peek.remaining(), Some(50_000 - admitted), "and nothing was charged");
        let refund = Request::new(Operation::Refund, b"a");
        let _ = limit.decide(refund.costs(Costs::Same(Cost::new(1_000).unwrap()))).unwrap();
        clock.advance(Duration::from_micros(1));
        assert!(check(&limit, "a").is_allowed(), "there is room again");
    }
}

/// Returns a strict store whose caps fit exactly the keys that `fill` adds to one limit.
fn filled(
    clock: &Arc<ManualClock>,
    specs: &[&str],
    fill: impl Fn(&MemoryLimit),
) -> (MemoryStore, MemoryLimit) {
    let build = |most| {
        let store = builder(1_000, clock).overflow(Overflow::Deny).max_bytes(bytes(most)).build();
        let limit = open(&store, "x", specs);
        fill(&limit);
        (store, limit)
    };
    let most = build(1 << 20).0.stats().bytes;
    build(most)
}

/// Before, the policy kept a state that had grown beyond the cap.
#[test]
fn a_shadow_without_room_to_grow_keeps_what_it_had() {
    let clock = clock();
    let specs = ["token_bucket 1/d burst 50", "sliding_window 50/h slices 60 shadow"];
    let (store, limit) = filled(&clock, &specs, |limit| flood(limit, 10));
    for minute in 1..20_u32 {
        clock.advance(Duration::from_secs(60));
        let decision = check(&limit, "flood 7");
        assert!(decision.is_allowed());
        assert!(decision.warnings().full, "minute {minute}");
        assert_eq!(store.stats().bytes, store.stats().max_bytes, "minute {minute}");
        let peek = limit.decide(Request::new(Operation::Peek, b"flood 7")).unwrap();
        let shadow = peek.outcome("sliding_window").unwrap().remaining();
        assert_eq!(shadow, Some(49), "minute {minute}");
    }
}

#[test]
fn a_log_of_which_most_has_left_gives_its_memory_back() {
    let clock = clock();
    let store = builder(1_000, &clock).build();
    let limit = open(&store, "x", &["sliding_log 50000/min"]);
    let ask = |times: u32| {
        for _ in 0..times {
            clock.advance(Duration::from_micros(10));
            assert!(check(&limit, "a").is_allowed());
        }
    };
    ask(40_000);
    assert!(store.stats().bytes > 640_000);
    clock.advance(Duration::from_secs(60));
    ask(100);
    assert!(store.stats().bytes < 20_000, "{:?}", store.stats());
}

/// Reserved capacity always belongs to a state.
#[test]
fn no_room_is_lost_at_the_caps() {
    // A limit alone in the store is denied in cases in which several limits evict each other's
    // states.
    let cases =
        [(Overflow::Evict, 0), (Overflow::Deny, 0), (Overflow::Evict, 3), (Overflow::Deny, 3)];
    for (overflow, first) in cases {
        let clock = clock();
        let store = builder(300, &clock).overflow(overflow).max_bytes(bytes(60_000)).build();
        let limits = [
            open(&store, "one", &["token_bucket 50/h"]),
            open(&store, "log", &["sliding_log 500/h and 9/s"]),
            open(
                &store,
                "all",
                &["gcra 9/h burst 9", "sliding_log 99/h", "sliding_window 99/h shadow"],
            ),
            open(&store, "free", &["sliding_log 20/h", "fixed_window 30/h"]),
        ];
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (limits, clock, store) = (&limits, &clock, &store);
                scope.spawn(move || {
                    let mut dice = 0x9e37_79b9_7f4a_7c15 ^ (thread << 32);
                    let mut roll = |sides: u64| {
                        dice ^= dice << 13;
                        dice ^= dice >> 7;
                        dice ^= dice << 17;
                        dice % sides
                    };
                    for _ in 0..30_000 {
                        let operation = match roll(20) {
                            0 => Operation::Reset,
                            1 => Operation::Refund,
                            2 => Operation::Peek,
                            3 => Operation::Charge,
                            4 => Operation::Take,
                            _ => Operation::Check,
                        };
                        // Four keys are used often and grow large.
                        let key = match roll(3) {
                            0 => roll(4),
                            _ => roll(600),
                        };
                        let key = key.to_string();
                        let request = Request::new(operation, key.as_bytes());
                        let limit =
                            &limits[first + usize::try_from(roll(4)).unwrap() % (4 - first)];
                        let _ = limit.decide(request).unwrap();
                        clock.advance(Duration::from_micros(roll(100_000) + 1));
                        let stats = store.stats();
                        assert!(stats.keys <= 300 && stats.bytes <= 60_000, "{stats:?}");
                    }
                });
            }
        });
        assert!(store.stats().keys > 0);
        clock.advance(Duration::from_secs(259_200));
        store.purge();
        assert_eq!((store.stats().keys, store.stats().bytes), (0, 0), "{overflow:?}");
        drop(limits);
    }
}
