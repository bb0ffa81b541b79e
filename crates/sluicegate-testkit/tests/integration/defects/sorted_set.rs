//! Source 4: a sorted set of requests, trimmed by the callers' clocks.

use std::collections::VecDeque;

use sluicegate_core::{OpenOptions, OpenedLimit as _, Policy, Request, Span, Store as _};

use crate::defects::everywhere::{
    Everywhere, HOUR, MIN, MS, S, at, every, most_within, retry, times,
};
use crate::defects::raw::{check_of, injected, on_each_server};

/// Seed defect 4.1.
#[test]
fn every_admission_is_recorded() {
    let allowed = |spec: &str, step, end| Everywhere::new(&[spec]).allowed_at(every(step, 0, end));
    assert_eq!(allowed("sliding_log 1/10s", 500 * MS, 10 * MIN).len(), 60);
    assert_eq!(allowed("sliding_log 5/10s", 500 * MS, 10 * MIN).len(), 300);
    assert_eq!(allowed("sliding_log 10/s", 10 * MS, MIN).len(), 600);
    assert_eq!(allowed("sliding_log 10/10s", S, 10 * MIN).len(), 600, "entries 1 s apart");
    let hundred = allowed("sliding_log 100/10s", 50 * MS, MIN);
    assert_eq!((hundred.len(), most_within(10 * S, &hundred)), (600, 100));
    // Bursts: exactly the limit per window.
    let mut bursts = Everywhere::new(&["sliding_log 5/10s"]);
    let asks = (0..11_u64).flat_map(|window| times(20, window * 10 * S));
    let allowed = bursts.allowed_at(asks);
    assert_eq!((allowed.len(), most_within(10 * S, &allowed)), (55, 5));
}

/// Seed defect 4.2: entries are counted, not named. Subjects are encoded so that no two are equal.
#[test]
fn calls_that_look_alike_are_all_counted() {
    let mut all = Everywhere::new(&["sliding_log 5/10s"]);
    assert_eq!(all.allowed(times(1_000, 0)), 5);
    for pair in [["1.11.1.1", "11.1.1.1"], ["a:b", "a%3ab"], ["{a}", "a"], ["", "%"]] {
        for subject in pair {
            assert_eq!(all.allowed(times(6, S).map(|ask| ask.key(subject))), 5, "{subject}");
        }
    }
}

/// Seed defect 4.3.
#[test]
fn a_dead_node_that_was_ahead_holds_nobody_up_for_longer_than_a_window() {
    let mut nodes = Everywhere::of_nodes(&["sliding_log 5/10s"], 2);
    let both = nodes.allowed(times(5, 0)) + nodes.allowed(times(5, 0).map(|ask| ask.node(1)));
    assert_eq!(both, 5);
    for ahead in [MIN, HOUR] {
        let mut all = Everywhere::own_clock(&["sliding_log 5/10s"]);
        assert_eq!(all.allowed(times(5, ahead)), 5);
        let polled = all.allowed_at(every(100 * MS, 0, 11 * S).collect::<Vec<_>>());
        assert_eq!(polled[0], 10 * S, "A waits 10 s");
    }
    // 200 groups that claim to be 10 s further ahead each, at one instant.
    on_each_server(|raw| {
        let handle = raw.open(&["sliding_log 5/min"]);
        assert_eq!((0..400).filter(|_| raw.check(&handle).is_allowed()).count(), 5);
        // Refusals don't renew the TTL either.
        for key in raw.keys() {
            let before = raw.life(&key);
            assert!(raw.check(&handle).is_denied());
            assert!(raw.life(&key) <= before);
        }
    });
}

/// Seed defect 4.4: a counter takes at most 200 bytes with any limit. A log's error says what it
/// isn't for.
#[test]
fn a_large_limit_does_not_take_memory_by_the_request() {
    on_each_server(|raw| {
        for spec in [
            "sliding_counter 1000000/10s",
            "sliding_window 1000000/10s slices 10",
            "fixed_window 1000000/10s",
            "gcra 1000000/10s",
        ] {
            let handle = raw.open_injected(&[spec]);
            let _ = raw.ask(&handle, injected(0));
            let key = raw.only_key();
            let once = raw.number(&[b"MEMORY", b"USAGE", &key]);
            for call in 1..1_000 {
                let _ = raw.ask(&handle, injected(call));
            }
            let often = raw.number(&[b"MEMORY", b"USAGE", &key]);
            assert_eq!(once, often, "{spec}");
            assert!(often <= 200, "{often} bytes for {spec}");
            raw.command(&[b"DEL", &key]);
        }
        // An exact log takes 14 bytes per stamp.
        let handle = raw.open_injected(&["sliding_log 10000/10s"]);
        for call in 0..1_000 {
            assert!(raw.ask(&handle, injected(call)).is_allowed());
        }
        let lengths: VecDeque<_> =
            raw.keys().iter().map(|key| raw.number(&[b"STRLEN", key])).collect();
        assert!(lengths.iter().sum::<i64>() <= 14 * 1_000 + 41, "{lengths:?}");
    });
    let error = "sliding_log 1000000/10s".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("sliding_counter"), "{error}");
}

/// Seed defect 4.5.
#[test]
fn a_window_shorter_than_a_millisecond_is_exact_and_an_empty_one_refused() {
    for spec in
        ["sliding_log 5/0s", "sliding_log 5/-10s", "sliding_log 5/ns", "sliding_log 5/s and 10/0s"]
    {
        assert!(spec.parse::<Policy>().is_err(), "{spec}");
    }
    let mut all = Everywhere::new(&["sliding_log 5/500us"]);
    assert_eq!(all.allowed(times(1_000, 0)), 5);
    assert_eq!(all.allowed(times(1_000, 499)), 0);
    assert_eq!(all.allowed(times(1_000, 500)), 5);
}

/// Seed defect 4.6, as far as the store is concerned: a store's failure is an error, not a refusal.
/// A refusal is not an error.
#[test]
fn errors_and_refusals_are_told_apart() {
    on_each_server(|raw| {
        let handle = raw.open(&["sliding_log 1/h"]);
        assert!(raw.check(&handle).is_allowed());
        let refused = raw.try_ask(&handle, check_of(1)).unwrap();
        assert!(refused.is_denied());
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // No server listens on port 1.
    let nobody = sluicegate_redis::RedisStore::builder("redis://127.0.0.1:1").unwrap().build();
    let limit = crate::defects::everywhere::limit(&["sliding_log 1/h"]);
    let opened = nobody.open(limit, OpenOptions::default());
    let error = runtime.block_on(opened.ask(Request::check(b"k")).wait()).unwrap_err();
    assert!(error.is_store_failure());
}

/// Tests that every answer contains the remaining units and the time at which they return. No seed
/// design reports these, or the cost of a peek.
#[test]
fn every_answer_says_what_is_left_and_when_it_comes_back() {
    let mut all = Everywhere::new(&["sliding_log 5/10s"]);
    assert_eq!(all.allowed(times(3, 0)), 3);
    assert_eq!(all.remaining(S), 2);
    assert!(all.ask(at(S).cost(2)).is_allowed());
    let refused = all.ask(at(2 * S).cost(4));
    assert_eq!(retry(&refused), Some(9 * S), "when the two of second 1 have left too");
    assert_eq!(Span::from(refused.policy(0).unwrap().reset_after().unwrap()).as_micros(), 9 * S);
    let _ = all.ask(at(2 * S).cost(3).refund());
    assert_eq!(all.remaining(2 * S), 3);
    let _ = all.ask(at(2 * S).to(sluicegate_core::Operation::Reset));
    assert_eq!(all.remaining(2 * S), 5);
}
