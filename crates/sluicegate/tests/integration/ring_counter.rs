//! Ring counters on every store, against a plain list of the calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::counter::RingCounter;
use sluicegate::error::{LimitError, StoreError};
use sluicegate::store::{
    Answer, BoxFuture, KeyPrefix, OpenOptions, OpenedLimit, Request, Store, StoreId, TimeSource,
};
use sluicegate::testing::{Clock, ManualClock, Timestamp};
use sluicegate::{Ask, Decision, Error, Limit, Limiter, MemoryStore, RedisStore};
use sluicegate_testkit::processes::{Process, say, told};
use sluicegate_testkit::servers;

const START: u64 = 1_699_920_000_000_000;
const MINUTE: u64 = 60_000_000;

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

/// A store by a clock that the test drives, on servers too.
struct Driven<S> {
    store: S,
    clock: Arc<ManualClock>,
    run: String,
}

struct DrivenLimit<L>(L, Arc<ManualClock>);

impl<S: Store> Driven<S> {
    fn new(store: S, run: &str) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START).unwrap()));
        Self { store, clock, run: run.to_owned() }
    }
}

impl<S: Store> Store for Driven<S> {
    type Opened = DrivenLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        let options = options.time(TimeSource::Injected { run: self.run.clone() });
        DrivenLimit(self.store.open(limit, options), Arc::clone(&self.clock))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }
}

impl<L: OpenedLimit> OpenedLimit for DrivenLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.ask(request.at(self.1.now()))
    }
}

/// Calls at random times, some of them late, and after each every window there is.
async fn assert_every_window_is_what_a_list_says<S: Store>(store: S, slices: u64, seed: u64) {
    let store = Driven::new(store, &format!("{slices}-{seed}"));
    let clock = Arc::clone(&store.clock);
    let ring = RingCounter::new(store, "ring", Duration::from_secs(3_600), slices).unwrap();
    let (hour, slice) = (60 * MINUTE, 60 * MINUTE / slices);
    let mut random = seed;
    let mut dice = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    // The slice and units of each call, and the newest time of any.
    let (mut calls, mut newest, mut now): (Vec<(u64, u64)>, u64, u64) = (Vec::new(), 0, START);
    let sum = |calls: &[(u64, u64)], window: u64, at: u64| -> u64 {
        calls.iter().filter(|(stamp, _)| stamp + window > at).map(|(_, units)| units).sum()
    };
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
        clock.set(Timestamp::from_micros(now).unwrap());
        for _ in 0..dice(4) {
            let units = 1 + dice(9);
            newest = newest.max(now);
            calls.push((newest - newest % slice, units));
            assert_eq!(ring.count("k", units).await.unwrap(), sum(&calls, slice, newest));
        }
        let judged = newest.max(now);
        let counts = ring.read("k").await.unwrap();
        assert_eq!(counts.at().as_micros(), judged);
        assert_eq!(counts.current(), sum(&calls, slice, judged), "{slices} slices at {now}");
        for window in (1..=slices).map(|slices| slices * slice) {
            let expected = Some(sum(&calls, window, judged));
            assert_eq!(
                counts.total(Duration::from_micros(window)),
                expected,
                "{slices} slices at {now}"
            );
        }
    }
}

/// Rings with few slices are stored with the other states of their subject, others separately.
const SLICES: [u64; 3] = [1, 60, 120];

#[test]
fn every_window_over_one_ring_is_what_a_list_says() {
    for slices in SLICES {
        for seed in 0..20 {
            let store = MemoryStore::new();
            block_on(assert_every_window_is_what_a_list_says(store, slices, seed));
        }
        for store in on_servers() {
            block_on(async {
                for seed in 0..4 {
                    assert_every_window_is_what_a_list_says(store.clone(), slices, seed).await;
                }
            });
        }
    }
}

/// One ring serves several scales, and the program decides: seed items 1.1, 1.6, 1.7 and 1.10.
#[test]
fn one_ring_serves_a_limit_per_minute_and_one_per_hour() {
    let (clock, store) = embedded();
    let calls = RingCounter::new(store, "calls", Duration::from_secs(3_600), 60).unwrap();
    block_on(async {
        let mut admitted = 0;
        for _ in 0..120 {
            for _ in 0..3 {
                let counts = calls.read("export").await.unwrap();
                let fits = counts.total(Duration::from_secs(60)).unwrap() < 2
                    && counts.total(Duration::from_secs(3_600)).unwrap() < 100;
                if fits {
                    assert!(calls.count("export", 1).await.unwrap() <= 2);
                    admitted += 1;
                }
            }
            clock.advance(Duration::from_secs(60));
        }
        // 50 minutes of 2, then nothing until the first have left, and so on again.
        assert_eq!(admitted, 100 + 100);
        calls.reset("export").await.unwrap();
        assert_eq!(calls.read("export").await.unwrap().total(Duration::from_secs(3_600)), Some(0));
    });
}

/// Seed items 1.5 to 1.7: a count returns its slice; a read returns that and every window.
#[test]
fn the_current_slice_is_told_beside_the_window() {
    const QUARTER: u64 = 250_000;
    async fn assert_told<S: Store>(store: S) {
        let store = Driven::new(store, "told");
        let clock = Arc::clone(&store.clock);
        let at = |micros| clock.set(Timestamp::from_micros(START + micros).unwrap());
        let ring = RingCounter::new(store, "calls", Duration::from_secs(1), 4).unwrap();
        assert_eq!(ring.count("k", 2).await.unwrap(), 2);
        at(260_000);
        assert_eq!(ring.count("k", 3).await.unwrap(), 3);
        at(499_999);
        assert_eq!(ring.count("k", 1).await.unwrap(), 4);
        let told = async || {
            let counts = ring.read("k").await.unwrap();
            let windows = [QUARTER, 3 * QUARTER, 4 * QUARTER];
            (
                counts.current(),
                windows.map(|window| counts.total(Duration::from_micros(window)).unwrap()),
            )
        };
        assert_eq!(told().await, (4, [4, 6, 6]));
        at(500_000);
        assert_eq!(told().await, (0, [0, 6, 6]));
        at(1_000_000);
        assert_eq!(told().await, (0, [0, 0, 4]));
        at(1_250_000);
        assert_eq!(told().await, (0, [0, 0, 0]));
    }
    block_on(async {
        assert_told(MemoryStore::new()).await;
        for store in on_servers() {
            assert_told(store).await;
        }
    });
}

/// Seed item 1.6 and defect 1.10: any window, of any number of slices.
#[test]
fn a_window_is_read_with_one_call() {
    let server = servers::Server::start().unwrap();
    for slices in [1, 60, 3_600] {
        let store = RedisStore::builder(&server.url()).unwrap().deadline(Duration::from_secs(5));
        let store = Driven::new(store.build(), "one");
        let clock = Arc::clone(&store.clock);
        let ring = RingCounter::new(store, "calls", Duration::from_secs(3_600), slices).unwrap();
        let counts = block_on(async {
            for _ in 0..100 {
                ring.count("export", 1).await.unwrap();
                clock.advance(Duration::from_secs(10));
            }
            server.cli(&["CONFIG", "RESETSTAT"]).unwrap();
            ring.read("export").await.unwrap()
        });
        assert_eq!(counts.total(Duration::from_secs(3_600)), Some(100));
        let stats = server.cli(&["INFO", "commandstats"]).unwrap();
        let calls = stats.lines().filter_map(|line| {
            let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((command, rest.split(',').next()?.parse().ok()?))
        });
        let calls: BTreeMap<&str, u64> =
            calls.filter(|(command, _)| !command.starts_with("config")).collect();
        // The clock, the head and the entries are fetched inside the call.
        let inside: u64 = calls.values().sum::<u64>() - calls["evalsha"];
        assert!(calls["evalsha"] == 1 && inside <= 5, "{slices} slices: {calls:?}");
    }
}

#[test]
#[ignore = "a process of `nodes_and_restarts_count_in_one_ring`"]
fn node_that_counts() {
    let [url, prefix, units] = told();
    let prefix: KeyPrefix = prefix.parse().unwrap();
    let store = RedisStore::builder(&url).unwrap().prefix(prefix);
    let store = store.deadline(Duration::from_secs(5)).build();
    let node = RingCounter::new(store, "calls", Duration::from_secs(3_600), 60).unwrap();
    block_on(async {
        for _ in 0..10 {
            node.count("export", units.parse().unwrap()).await.unwrap();
        }
        say(node.read("export").await.unwrap().total(Duration::from_secs(3_600)).unwrap());
    });
}

/// Processes that count together, and one that starts after they have ended, use one ring: seed items 1.3 and 1.4,
/// defects 1.1 and 1.2.
#[test]
fn nodes_and_restarts_count_in_one_ring() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("nodes");
        let node = |units: &str| {
            Process::start("ring_counter::node_that_counts", &[&server.url(), &prefix, units])
        };
        let totals = |nodes: Vec<Process>| -> Vec<u64> {
            let ends = nodes.into_iter().map(Process::finish);
            ends.map(|said| said.last().unwrap().parse().unwrap()).collect()
        };
        let together = totals((0..10).map(|_| node("10")).collect());
        assert_eq!(together.iter().max(), Some(&1_000), "{together:?}");
        assert_eq!(totals(vec![node("1")]), [1_010], "after a restart");
    }
}

#[test]
fn a_ring_that_cannot_be_cut_is_refused_with_what_can() {
    let new = |ring, slices| RingCounter::new(MemoryStore::new(), "calls", ring, slices);
    assert!(new(Duration::from_secs(3_600), 60).is_ok());
    for (ring, slices) in [(3_600, 7), (3_600, 0), (1, 2_000)] {
        let error = new(Duration::from_secs(ring), slices).unwrap_err();
        assert!(matches!(error, LimitError::Policy(_)), "{error}");
        assert!(error.to_string().contains("slices"), "{error}");
    }
    let name =
        RingCounter::new(MemoryStore::new(), "a b", Duration::from_secs(3_600), 60).unwrap_err();
    assert!(matches!(name, LimitError::Name(_)), "{name}");
}

/// A ring's time may be ahead of the store's clock: it is the time of the latest count.
#[test]
fn a_ring_is_read_at_its_newest_time_when_the_clock_steps_back() {
    let (clock, store) = embedded();
    let calls = RingCounter::new(store.clone(), "calls", Duration::from_secs(3_600), 60).unwrap();
    block_on(async {
        calls.count("export", 7).await.unwrap();
        clock.set(Timestamp::from_micros(START - 1_000_000).unwrap());
        let counts = calls.read("export").await.unwrap();
        assert_eq!((counts.current(), counts.at()), (7, Timestamp::from_micros(START).unwrap()));
        let limiter = Limiter::new(store, Limit::new("l", ["gcra 1/s"]).unwrap());
        assert!(limiter.check(Ask::new("k")).await.unwrap().is_allowed());
        assert!(clock.now() < counts.at());
    });
}
