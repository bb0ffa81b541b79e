//! Ring counters on every store, against a plain list of the calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate::{
    Ask, Clock, InvalidLimit, KeyPrefix, Limiter, ManualClock, MemoryStore, OpenOptions,
    OpenedLimit as _, Operation, RedisStore, Request, RingCounter, Span, Store, TimeSource,
    Timestamp,
};
use sluicegate_testkit::servers;

const START: u64 = 1_699_920_000_000_000;
const MINUTE: u64 = 60_000_000;

fn span(micros: u64) -> Span {
    Span::from_micros(micros).unwrap()
}

fn embedded() -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START).unwrap()));
    (Arc::clone(&clock), MemoryStore::builder().clock(clock).build())
}

fn on_servers() -> Vec<RedisStore> {
    let store = |server: &servers::Server| {
        let prefix: KeyPrefix = servers::fresh_prefix("ring").parse().unwrap();
        let builder = RedisStore::builder(&server.url()).unwrap();
        builder.prefix(prefix).deadline(Duration::from_secs(5)).build()
    };
    servers::shared_each().unwrap().iter().map(|server| store(server)).collect()
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Calls at random times, some of them late, and after each every window there is.
async fn assert_every_window_is_what_a_list_says<S: Store>(store: &S, slices: u64, seed: u64) {
    let limit =
        sluicegate::limit("ring", [format!("sliding_window 9007199254740991/h slices {slices}")]);
    let run = TimeSource::Injected { run: format!("{slices}-{seed}") };
    let ring = store.open(limit.unwrap(), OpenOptions::default().time(run));
    let (hour, slice) = (60 * MINUTE, 60 * MINUTE / slices);
    let mut random = seed;
    let mut dice = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    // The slice and units of each call, and the newest time of any.
    let (mut calls, mut newest, mut now): (Vec<(u64, u64)>, u64, u64) = (Vec::new(), 0, START);
    for _ in 0..60 {
        now += match dice(8) {
            0 => 0,
            1 => dice(hour + hour / 2),
            2 => slice - now % slice,
            _ => dice(3 * slice),
        };
        if dice(10) == 0 {
            now -= dice(2 * slice);
        }
        let at = Timestamp::from_micros(now).unwrap();
        for _ in 0..dice(4) {
            let _ = ring.ask(Request::new(Operation::Charge, b"k").at(at)).wait().await.unwrap();
            newest = newest.max(now);
            calls.push((newest - newest % slice, 1));
        }
        let judged = newest.max(now);
        let mut answer = ring.ask(Request::slices(b"k").at(at)).wait().await.unwrap();
        let counts = answer.take_slices().unwrap();
        assert_eq!(counts.at().as_micros(), judged);
        for slices in 1..=slices {
            let window = slices * slice;
            let expected: u64 = calls
                .iter()
                .filter(|(stamp, _)| stamp + window > judged)
                .map(|(_, units)| units)
                .sum();
            assert_eq!(counts.total(span(window)), Some(expected), "{slices} slices at {now}");
            if slices == 1 {
                assert_eq!(counts.current(), expected);
            }
        }
    }
}

/// Rings of few slices are kept with the other states of their subject, others by themselves.
const SLICES: [u64; 3] = [1, 60, 120];

#[test]
fn every_window_over_one_ring_is_what_a_list_says() {
    for slices in SLICES {
        for seed in 0..20 {
            let store = MemoryStore::new();
            block_on(assert_every_window_is_what_a_list_says(&store, slices, seed));
        }
        for store in on_servers() {
            block_on(async {
                for seed in 0..4 {
                    assert_every_window_is_what_a_list_says(&store, slices, seed).await;
                }
            });
        }
    }
}

/// One ring serves several scales, and whoever counts decides: seed items 1.1, 1.6, 1.7 and 1.10.
#[test]
fn one_ring_serves_a_limit_per_minute_and_one_per_hour() {
    let (clock, store) = embedded();
    let calls = RingCounter::new(store, "calls", Span::HOUR, 60).unwrap();
    block_on(async {
        let mut admitted = 0;
        for _ in 0..120 {
            for _ in 0..3 {
                let counts = calls.read("export").await.unwrap();
                let fits = counts.total(Span::MINUTE).unwrap() < 2
                    && counts.total(Span::HOUR).unwrap() < 100;
                if fits {
                    assert!(calls.count("export", 1).await.unwrap() <= 2);
                    admitted += 1;
                }
            }
            clock.advance(Span::MINUTE);
        }
        // 50 minutes of 2, then nothing until the first have left, and so on again.
        assert_eq!(admitted, 100 + 100);
        calls.reset("export").await.unwrap();
        assert_eq!(calls.read("export").await.unwrap().total(Span::HOUR), Some(0));
    });
}

/// A process that starts again, and many that count together, find one ring: seed items 1.3 and 1.4,
/// defects 1.1 and 1.2.
#[test]
fn nodes_and_restarts_count_in_one_ring() {
    for store in on_servers() {
        block_on(async {
            for _ in 0..10 {
                let node = RingCounter::new(store.clone(), "calls", Span::HOUR, 60).unwrap();
                for _ in 0..10 {
                    node.count("export", 10).await.unwrap();
                }
            }
            let restarted = RingCounter::new(store.clone(), "calls", Span::HOUR, 60).unwrap();
            let counts = restarted.read("export").await.unwrap();
            assert_eq!(counts.total(Span::HOUR), Some(1_000));
            assert_eq!(counts.iter().map(|(_, units)| units).sum::<u64>(), 1_000);
        });
    }
}

#[test]
fn a_ring_that_cannot_be_cut_is_refused_with_what_can() {
    let new = |ring, slices| RingCounter::new(MemoryStore::new(), "calls", ring, slices);
    assert!(new(Span::HOUR, 60).is_ok());
    for (ring, slices) in [(Span::HOUR, 7), (Span::HOUR, 0), (Span::SECOND, 2_000)] {
        let error = new(ring, slices).unwrap_err();
        assert!(matches!(error, InvalidLimit::Numbers(_)), "{error}");
        assert!(error.to_string().contains("slices"), "{error}");
    }
    let name = RingCounter::new(MemoryStore::new(), "a b", Span::HOUR, 60).unwrap_err();
    assert!(matches!(name, InvalidLimit::Name(_)), "{name}");
}

/// The time of a ring that lies ahead of the store's clock is what it was counted at.
#[test]
fn a_ring_is_read_at_its_newest_time_when_the_clock_steps_back() {
    let (clock, store) = embedded();
    let calls = RingCounter::new(store.clone(), "calls", Span::HOUR, 60).unwrap();
    block_on(async {
        calls.count("export", 7).await.unwrap();
        clock.set(Timestamp::from_micros(START - 1_000_000).unwrap());
        let counts = calls.read("export").await.unwrap();
        assert_eq!((counts.current(), counts.at()), (7, Timestamp::from_micros(START).unwrap()));
        let limiter = Limiter::new(store, sluicegate::limit("l", ["gcra 1/s"]).unwrap());
        assert!(limiter.check(Ask::new("k")).await.unwrap().is_allowed());
        assert!(clock.now() < counts.at());
    });
}
