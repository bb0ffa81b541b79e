//! A fallback for a store that has to be awaited, and for real servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::Future;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::decision::Source;
use sluicegate::error::StoreErrorKind;
use sluicegate::layers::{Breaker, Fallback, FallbackLimit, Processes};
use sluicegate::store::{Measure, OpenOptions, OpenedLimit, Operation, Request, Store};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Decision, Limit, MemoryStore, RedisStore};
use sluicegate_testkit::layers::{Awaited, Outage, Unsteady};
use sluicegate_testkit::servers::{Server, available};
use sluicegate_testkit::wait::until_async;

fn limit(specs: &[&str]) -> Limit {
    Limit::new("local", specs.iter().copied()).unwrap()
}

fn number(processes: u16) -> Processes {
    Processes::Number(NonZeroU16::new(processes).unwrap())
}

async fn check(opened: &impl OpenedLimit, key: &str) -> Decision {
    opened.ask(Request::check(key.as_bytes())).wait().await.unwrap()
}

async fn peek(opened: &impl OpenedLimit, key: &str) -> Decision {
    opened.ask(Request::new(Operation::Peek, key.as_bytes())).wait().await.unwrap()
}

async fn passed(opened: &impl OpenedLimit, key: &str, checks: usize) -> usize {
    let mut passed = 0;
    for _ in 0..checks {
        passed += usize::from(check(opened, key).await.is_allowed());
    }
    passed
}

fn measure(store: &impl Store, name: &str, label: Option<&str>) -> u64 {
    let measures = store.measures();
    let mut found = measures.iter().filter(|measure| {
        measure.name() == name && measure.labels().next().map(|(_, value)| value) == label
    });
    found.next().map(Measure::value).unwrap()
}

type Waited = Awaited<Unsteady<MemoryStore>>;

/// Returns a store that has to be awaited, and one process with a fallback for it.
fn waited() -> (Unsteady<MemoryStore>, Fallback<Waited>) {
    let store = Unsteady::new(MemoryStore::new());
    let fallback = Fallback::new(Awaited(store.clone()), number(1));
    (store, fallback)
}

/// Returns the store's remaining units.
fn left(store: &Unsteady<MemoryStore>, limit: &Limit) -> Option<u64> {
    let plain = store.open(limit.clone(), OpenOptions::default());
    plain.ask_now(Request::new(Operation::Peek, b"alice")).unwrap().unwrap().remaining()
}

#[tokio::test]
async fn a_charge_is_begun_when_the_store_answers_and_one_of_which_nothing_is_heard_counts_as_made()
{
    let (store, fallback) = waited();
    let limit = limit(&["fixed_window 100/h"]);
    let opened = fallback.open(limit.clone(), OpenOptions::default());
    store.set(Outage::Away(StoreErrorKind::Unavailable));
    assert_eq!(passed(&opened, "alice", 5).await, 5);
    // A store that has failed gets a read first.
    store.set(Outage::Silent);
    assert_eq!(check(&opened, "alice").await.source(), Source::Fallback);
    assert_eq!(left_while(&store, &limit, Outage::Silent), Some(100));
    // The store recovers for a short time: the charge is made, but its answer is lost.
    store.set(None);
    assert_eq!(peek(&opened, "bob").await.source(), Source::Store);
    store.set(Outage::Silent);
    assert_eq!(check(&opened, "alice").await.source(), Source::Fallback);
    assert_eq!(measure(&fallback, "fallback_charges", Some("unknown")), 1);
    store.set(None);
    // Six from before, and the one that was admitted when the answer to their charge was lost.
    assert_eq!(check(&opened, "alice").await.remaining(), Some(100 - 6 - 1 - 1));
    assert_eq!(measure(&fallback, "fallback_charges", Some("charged")), 1);
    assert_eq!(measure(&fallback, "fallback_owing_keys", None), 0);
}

fn left_while(store: &Unsteady<MemoryStore>, limit: &Limit, outage: Outage) -> Option<u64> {
    store.set(None);
    let left = left(store, limit);
    store.set(outage);
    left
}

#[tokio::test]
async fn callers_that_come_together_wait_for_one_charge() {
    let (store, fallback) = waited();
    let limit = limit(&["fixed_window 1000/h"]);
    let opened = Arc::new(fallback.open(limit.clone(), OpenOptions::default()));
    store.set(Outage::Away(StoreErrorKind::Unavailable));
    assert_eq!(passed(&*opened, "alice", 100).await, 100);
    store.set(None);
    let asked = store.asked();
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let opened = Arc::clone(&opened);
            tokio::spawn(async move { check(&*opened, "alice").await })
        })
        .collect();
    let mut least = 1_000;
    for caller in callers {
        let decision = caller.await.unwrap();
        assert_eq!(decision.source(), Source::Store);
        least = decision.remaining().unwrap().min(least);
        assert!(decision.remaining().unwrap() < 900, "it was charged before");
    }
    assert_eq!(least, 1_000 - 100 - 50);
    assert_eq!(store.asked() - asked, 50 + 2, "a peek and a charge, once");
}

#[tokio::test]
async fn a_charge_goes_on_when_its_caller_leaves() {
    let (store, fallback) = waited();
    let limit = limit(&["fixed_window 100/h"]);
    let opened = fallback.open(limit.clone(), OpenOptions::default());
    store.set(Outage::Away(StoreErrorKind::Unavailable));
    assert_eq!(passed(&opened, "alice", 7).await, 7);
    store.set(None);
    let asking = opened.ask(Request::check(b"alice"));
    drop(asking);
    assert_eq!(left(&store, &limit), Some(100), "nobody has waited for it");
    // Another thread charges, and may be faster.
    let is_answered = {
        let mut asking = std::pin::pin!(opened.ask(Request::check(b"alice")).wait());
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(asking.as_mut().poll(context).is_ready())
        });
        polled.await
    };
    let rest = 93 - u64::from(is_answered);
    until_async("the charge", async || match left(&store, &limit) {
        Some(left) if left == rest => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(check(&opened, "alice").await.remaining(), Some(rest - 1), "and not once more");
}

#[test]
fn without_a_runtime_the_caller_charges() {
    let (store, fallback) = waited();
    let limit = limit(&["fixed_window 100/h"]);
    let opened = fallback.open(limit, OpenOptions::default());
    store.set(Outage::Away(StoreErrorKind::Unavailable));
    let poll = |future: &mut dyn FnMut(&mut std::task::Context<'_>) -> Option<u64>| {
        future(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    };
    let ask = || {
        let mut asking = Box::pin(check(&opened, "alice"));
        poll(&mut |context| match asking.as_mut().poll(context) {
            std::task::Poll::Ready(decision) => decision.remaining(),
            std::task::Poll::Pending => None,
        })
    };
    assert_eq!([ask(), ask()], [Some(99), Some(98)]);
    store.set(None);
    assert_eq!(ask(), Some(97));
}

/// Two processes that use one server.
struct Pair {
    stores: [Fallback<Breaker<RedisStore>>; 2],
    clock: Arc<ManualClock>,
}

fn pair(server: &Server) -> Pair {
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let stores = [(); 2].map(|()| {
        let redis = RedisStore::builder(&server.url()).unwrap();
        let redis = redis.deadline(Duration::from_millis(200)).build();
        let breaker = Breaker::builder(redis).clock(clock.clone()).build();
        Fallback::builder(breaker, number(2)).local(MemoryStore::new()).build()
    });
    Pair { stores, clock }
}

/// Sends requests about other keys until the store has answered.
async fn come_back(pair: &Pair, opened: &[FallbackLimit<impl OpenedLimit>; 2]) {
    for opened in opened {
        until_async("the store", async || {
            pair.clock.advance(Duration::from_secs(10));
            match peek(opened, "somebody").await.source() {
                Source::Store => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_that_is_killed_is_stood_in_for_and_charged_when_it_is_back() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let pair = pair(&server);
        // Nothing flows back in the time of a test.
        let limit = limit(&["token_bucket 1/d burst 100", "sliding_log 60/h as log"]);
        let opened =
            pair.stores.each_ref().map(|it| it.open(limit.clone(), OpenOptions::default()));
        come_back(&pair, &opened).await;
        assert_eq!(passed(&opened[0], "alice", 20).await, 20);
        assert_eq!(passed(&opened[1], "bob", 1).await, 1);
        server.cli(&["SAVE"]).unwrap();
        server.kill().unwrap();
        assert_eq!(passed(&opened[0], "alice", 40).await, 30, "half of the log");
        assert_eq!(passed(&opened[1], "alice", 5).await, 5);
        assert_eq!(passed(&opened[1], "carol", 40).await, 30);
        assert_eq!(measure(&pair.stores[1], "fallback_owing_keys", None), 2);

        server.restart().unwrap();
        come_back(&pair, &opened).await;
        let remaining = async |process: usize, key| {
            let decision = peek(&opened[process], key).await;
            assert_eq!(decision.source(), Source::Store, "{binary}");
            decision.policies().map(|policy| policy.remaining().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(remaining(0, "alice").await, [50, 10], "{binary}: of before, and of the first");
        assert_eq!(remaining(1, "alice").await, [45, 5], "{binary}: of the second as well");
        assert_eq!(remaining(0, "alice").await, [45, 5], "{binary}: once");
        assert_eq!(
            remaining(0, "carol").await,
            [100, 60],
            "{binary}: nobody has asked who owes it"
        );
        assert_eq!(remaining(1, "carol").await, [70, 30], "{binary}");
        assert_eq!(remaining(0, "bob").await, [99, 59], "{binary}");
        assert_eq!(
            passed(&opened[0], "alice", 20).await + passed(&opened[1], "alice", 20).await,
            5
        );
        for store in &pair.stores {
            assert_eq!(measure(store, "fallback_owing_keys", None), 0, "{binary}");
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_and_goes_on_loses_no_debt_and_charges_none_twice() {
    let mut server = Server::start().unwrap();
    let pair = pair(&server);
    let limit = limit(&["fixed_window 1000/d"]);
    let opened = pair.stores.each_ref().map(|it| it.open(limit.clone(), OpenOptions::default()));
    come_back(&pair, &opened).await;
    let mut here = 0;
    for _ in 0..4 {
        server.pause().unwrap();
        here += passed(&opened[0], "alice", 30).await;
        // The breaker admits one probe again.
        pair.clock.advance(Duration::from_secs(10));
        here += passed(&opened[1], "alice", 10).await;
        server.resume().unwrap();
        come_back(&pair, &opened).await;
        // A process charges its pending units before its request.
        for opened in &opened {
            assert_eq!(peek(opened, "alice").await.source(), Source::Store);
        }
    }
    let remaining = peek(&opened[0], "alice").await.remaining().unwrap();
    let unknown: u64 =
        pair.stores.iter().map(|it| measure(it, "fallback_charges", Some("unknown"))).sum();
    assert_eq!(unknown, 0, "no charge was sent while it said nothing");
    // Checks that were sent before the outage was noticed are late, and charge nothing.
    assert_eq!(1_000 - remaining, here as u64);
}

#[tokio::test]
async fn processes_count_each_other_while_the_server_is_there() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let url = server.url();
        let process = || {
            let redis = RedisStore::builder(&url).unwrap();
            let redis = redis.deadline(Duration::from_secs(5)).build();
            let builder = Fallback::builder(Breaker::new(redis), Processes::Counted);
            let fallback = builder.interval(Duration::from_millis(500)).build();
            let opened = fallback.open(limit(&["fixed_window 12/d"]), OpenOptions::default());
            (fallback, opened)
        };
        let mut processes: Vec<_> = (0..4).map(|_| process()).collect();
        let counted = async |processes: &[(Fallback<_>, _)], count| {
            until_async("the count", async || {
                let counts: Vec<_> = processes
                    .iter()
                    .map(|(store, _)| measure(store, "fallback_processes", None))
                    .collect();
                if counts.iter().all(|it| *it == count) { Ok(()) } else { Err(counts) }
            })
            .await;
        };
        counted(&processes, 4).await;
        processes.truncate(3);
        counted(&processes, 3).await;
        server.kill().unwrap();
        for (_, opened) in &processes {
            let decision = check(opened, "alice").await;
            assert_eq!((decision.source(), decision.remaining()), (Source::Fallback, Some(3)));
        }
        // A new process doesn't know the number.
        let (newcomer, opened) = process();
        let error = opened.ask(Request::check(b"alice")).wait().await.unwrap_err();
        assert!(error.to_string().contains("was never there to count the processes"), "{error}");
        server.restart().unwrap();
        processes.push((newcomer, opened));
        counted(&processes, 4).await;
    }
}
