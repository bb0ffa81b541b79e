//! A breaker in front of a real server that is paused, killed and brought back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::error::StoreErrorKind;
use sluicegate::layers::{Breaker, BreakerChange, BreakerLimit};
use sluicegate::store::{OpenOptions, OpenedLimit as _, RedisLimit, Request, Span, Store as _};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Limit, MemoryStore, RedisStore};
use sluicegate_testkit::layers::{Awaited, Failing};
use sluicegate_testkit::servers::{Cluster, Server, available};
use sluicegate_testkit::wait::until_async;

/// The events of a breaker, by the text of their cause.
type Told = Arc<Mutex<Vec<String>>>;

struct Guarded {
    opened: BreakerLimit<RedisLimit>,
    clock: Arc<ManualClock>,
    told: Told,
}

fn guard(server: &Server, deadline_ms: u64) -> Guarded {
    let store = RedisStore::builder(&server.url())
        .unwrap()
        .deadline(Duration::from_millis(deadline_ms))
        .build();
    let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
    let told = Told::default();
    let listener = Arc::clone(&told);
    let breaker = Breaker::builder(store)
        .clock(clock.clone())
        .on_change(move |event| {
            listener.lock().unwrap().push(match &event.change {
                BreakerChange::Opened { because, .. } => format!("opened: {:?}", because.kind()),
                BreakerChange::Closed { after } => {
                    format!("closed: {}", Span::from(*after).in_words())
                }
                change => panic!("{change:?}"),
            });
        })
        .build();
    let limit = Limit::new("breaker", ["token_bucket 1/d burst 1000"]).unwrap();
    Guarded { opened: breaker.open(limit, OpenOptions::default()), clock, told }
}

impl Guarded {
    async fn check(&self) -> Result<bool, StoreErrorKind> {
        let answer = self.opened.ask(Request::check(b"alice")).wait().await;
        answer
            .map(|decision| decision.is_allowed())
            .map_err(|error| error.as_store().unwrap().kind())
    }

    /// Returns the text with which it refuses without calling the store.
    fn refusal(&self) -> Option<String> {
        let answer = self.opened.ask_now(Request::check(b"alice"))?;
        Some(answer.unwrap_err().to_string())
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_five_deadlines_and_then_none_until_it_does() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let guarded = guard(&server, 60);
        guarded.clock.advance(Duration::from_secs(1));
        while guarded.check().await.is_err() {}
        server.pause().unwrap();
        for _ in 0..5 {
            assert_eq!(guarded.refusal(), None);
            let kind = guarded.check().await.unwrap_err();
            // Some were sent, and others not.
            assert!(
                matches!(kind, StoreErrorKind::Timeout | StoreErrorKind::Unavailable),
                "{kind:?}"
            );
        }
        let refusal = guarded.refusal().unwrap();
        assert!(
            refusal
                .starts_with("the circuit breaker is open because the store failed: the store at "),
            "{refusal}"
        );
        assert!(
            refusal.contains("; the next attempt is in ")
                && refusal.ends_with("; nothing was charged"),
            "{refusal}"
        );
        assert_eq!(guarded.told(), ["opened: Unavailable"]);

        // One request probes, and the others are refused in the meantime.
        guarded.clock.advance(Duration::from_millis(500));
        let (probe, other) = tokio::join!(guarded.check(), async { guarded.refusal() });
        assert!(probe.is_err());
        assert!(other.unwrap().contains("one request is probing the store"));
        guarded.clock.advance(Duration::from_millis(149));
        assert!(guarded.refusal().is_some(), "the pause has doubled: at least 150 ms of it");

        server.resume().unwrap();
        guarded.clock.advance(Duration::from_millis(151));
        // A call that was sent while it was paused is answered first.
        while guarded.check().await.is_err() {
            guarded.clock.advance(Duration::from_secs(10));
        }
        assert_eq!(guarded.told().len(), 2, "{:?}", guarded.told());
        assert!(guarded.told()[1].starts_with("closed: "));
        assert_eq!(guarded.check().await, Ok(true));
    }
}

#[tokio::test]
async fn a_probe_whose_caller_leaves_before_or_after_it_was_sent_is_followed_by_another() {
    let mut server = Server::start().unwrap();
    let guarded = guard(&server, 50);
    while guarded.check().await.is_err() {}
    server.pause().unwrap();
    for _ in 0..5 {
        guarded.check().await.unwrap_err();
    }
    guarded.clock.advance(Duration::from_millis(500));
    drop(guarded.opened.ask(Request::check(b"alice")));
    assert_eq!(guarded.refusal(), None, "nobody polled it");
    let impatient = tokio::time::timeout(Duration::from_millis(5), guarded.check()).await;
    assert!(impatient.is_err());
    assert_eq!(guarded.refusal(), None, "its caller gave up");
    server.resume().unwrap();
    while guarded.check().await.is_err() {
        guarded.clock.advance(Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_restarted_is_asked_again() {
    let mut server = Server::start().unwrap();
    let guarded = guard(&server, 1_000);
    assert_eq!(guarded.check().await, Ok(true));
    server.kill().unwrap();
    while guarded.told().is_empty() {
        guarded.check().await.unwrap_err();
    }
    assert!(guarded.refusal().is_some());
    server.restart().unwrap();
    guarded.clock.advance(Duration::from_millis(500));
    while guarded.check().await.is_err() {
        guarded.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(guarded.told().len(), 2, "{:?}", guarded.told());
}

#[tokio::test]
async fn what_answers_at_once_is_not_guarded_and_too_much_to_do_is_no_failure() {
    let limit = || Limit::new("breaker", ["gcra 1/d"]).unwrap();
    let memory = Breaker::new(MemoryStore::new()).open(limit(), OpenOptions::default());
    assert!(memory.ask_now(Request::check(b"alice")).unwrap().unwrap().is_allowed());
    // A primary is still called while a replica is down.
    for kind in [StoreErrorKind::Overloaded, StoreErrorKind::Unacknowledged] {
        let failing = Failing::new(kind);
        let opened = Breaker::new(Awaited(failing.clone())).open(limit(), OpenOptions::default());
        for asked in 1..=50 {
            let error = opened.ask(Request::check(b"alice")).wait().await.unwrap_err();
            assert_eq!(error.as_store().unwrap().kind(), kind);
            assert_eq!(failing.asked(), asked);
        }
    }
}

/// Only the failing one of the nodes that a decision needs is not called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_fails_costs_the_decisions_that_need_it_and_no_others() {
    for binary in available().unwrap() {
        let options = ["--cluster-require-full-coverage", "no"];
        let mut cluster = Cluster::builder(&binary).replicas(0).options(&options).start().unwrap();
        let subject = |node: usize| {
            let is_there = |subject: &String| {
                cluster.primary_of(cluster.slot_of(subject.as_bytes()).unwrap()) == node
            };
            (0..).map(|number| format!("subject-{number}")).find(is_there).unwrap()
        };
        let subjects = [0, 1, 2].map(subject);
        let url = cluster.urls()[0].replace("redis://", "redis+cluster://");
        let store = RedisStore::builder(&url).unwrap().deadline(Duration::from_millis(300));
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let opened = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&opened);
        let breaker = Breaker::builder(store.build())
            .clock(clock.clone())
            .on_change(move |event| listener.lock().unwrap().push(event.node))
            .build();
        let [one, two] =
            ["one", "two"].map(|name| Limit::new(name, ["token_bucket 1/d burst 1000"]).unwrap());
        let alone = breaker.open(one.clone(), OpenOptions::default());
        let both = breaker.open(Limit::together([one, two]).unwrap(), OpenOptions::default());
        let check = async |first: usize, second: usize| {
            let also: &[&[u8]] = &[subjects[second].as_bytes()];
            let request = Request::check(subjects[first].as_bytes()).also(also);
            both.ask(request).wait().await.map(|decision| decision.is_allowed())
        };
        let is_refused_at_once = |first: usize, second: usize| {
            let also: &[&[u8]] = &[subjects[second].as_bytes()];
            let request = Request::check(subjects[first].as_bytes()).also(also);
            both.ask_now(request).is_some_and(|answer| answer.is_err())
        };
        for pair in [(0, 1), (0, 2), (1, 2)] {
            until_async("an answer", async || check(pair.0, pair.1).await).await;
        }
        cluster.server_mut(1).pause().unwrap();
        for _ in 0..5 {
            assert!(!is_refused_at_once(0, 1));
            assert!(check(0, 1).await.is_err());
        }
        assert!(is_refused_at_once(0, 1) && is_refused_at_once(1, 2) && is_refused_at_once(1, 1));
        let node = |subject: usize| alone.nodes(&Request::check(subjects[subject].as_bytes()))[0];
        assert_eq!(*opened.lock().unwrap(), [Some(node(1))]);
        assert!(check(0, 2).await.unwrap(), "neither of them has failed");
        let request = Request::check(subjects[0].as_bytes());
        assert!(alone.ask(request).wait().await.unwrap().is_allowed());
        cluster.server_mut(1).resume().unwrap();
        until_async("it is asked again", async || {
            clock.advance(Duration::from_secs(10));
            check(0, 1).await
        })
        .await;
    }
}
