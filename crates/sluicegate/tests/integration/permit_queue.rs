//! Waiting in a queue of permits, in the embedded store and on real servers, from several clients.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate::decision::{HoldFound, HoldId};
use sluicegate::error::RequestErrorKind;
use sluicegate::policy::Ban;
use sluicegate::store::{
    Hold, Idempotency, OpenOptions, OpenedLimit as _, Queued, Request, RequestId, SharedLimit,
    SharedStore, Span, Store as _, Ticket, TimeSource,
};
use sluicegate::testing::Timestamp;
use sluicegate::{Decision, Limiter, MemoryStore, RedisStore, Usage};
use sluicegate_testkit::servers::{Server, available, fresh_prefix};
use sluicegate_testkit::wait::until_async;

const START: u64 = 1_699_920_000_000_000;
const LIVES: Span = Span::SECOND;

/// Returns the kinds of stores, each opened by `clients` clients, with its server.
fn each(clients: usize) -> Vec<(Vec<SharedStore>, Option<Server>)> {
    let memory = SharedStore::new(MemoryStore::new());
    let mut all = vec![(vec![memory; clients], None)];
    for binary in available().unwrap() {
        let server = Server::builder(&binary).start().unwrap();
        let stores = (0..clients).map(|_| SharedStore::new(redis(&server))).collect();
        all.push((stores, Some(server)));
    }
    all
}

fn redis(server: &Server) -> RedisStore {
    let builder = RedisStore::builder(&server.url()).unwrap();
    builder.deadline(Duration::from_secs(5)).build()
}

fn open(store: &SharedStore, spec: &str) -> SharedLimit {
    let time = TimeSource::Injected { run: "queue".to_owned() };
    store.open(sluicegate::Limit::new("jobs", [spec]).unwrap(), OpenOptions::default().time(time))
}

fn hold(number: u8) -> Hold {
    Hold { id: HoldId::from_bytes([number; 16]), lasts: Duration::from_secs(60) }
}

async fn ask(opened: &SharedLimit, number: u8, priority: u8, at: u64) -> Decision {
    let (hold, ticket) = (hold(number), Ticket { priority, lives: LIVES });
    let request = Request::check(b"acme").hold(&hold).waiting(&ticket);
    opened.ask(request.at(Timestamp::from_micros(at).unwrap())).wait().await.unwrap()
}

async fn end(opened: &SharedLimit, number: u8, at: u64) -> HoldFound {
    let request = Request::settle(b"acme", hold(number).id, &[Some(0)]);
    let request = request.at(Timestamp::from_micros(at).unwrap());
    opened.ask(request).wait().await.unwrap().hold_found().unwrap()
}

fn ahead(decision: &Decision) -> u64 {
    match decision.queued() {
        Some(Queued::Waits { ahead, .. }) => ahead,
        other => panic!("{other:?} of {decision:?}"),
    }
}

#[tokio::test]
async fn the_highest_priority_comes_first_and_then_who_came_first() {
    for (stores, _server) in each(3) {
        let opened: Vec<_> = stores
            .iter()
            .map(|store| open(store, "concurrency 1 hold 1min queue 9 priorities 2"))
            .collect();
        assert!(ask(&opened[0], 1, 1, START).await.is_allowed());
        // The clock steps back in the meantime, which admits no waiter sooner.
        let waiters = [(2, 1, 0), (3, 1, 1), (4, 0, 0), (5, 0, 1), (6, 9, 4)];
        for (turn, (number, priority, expected)) in waiters.into_iter().enumerate() {
            let at = START + 100 - 20 * turn as u64;
            let decision = ask(&opened[turn % 3], number, priority, at).await;
            assert_eq!(ahead(&decision), expected, "{number}");
        }
        let (mut holder, order) = (1, [4, 5, 2, 3, 6]);
        for (served, next) in order.into_iter().enumerate() {
            // No request overtakes the waiters, with a ticket or without.
            assert_eq!(end(&opened[0], holder, START + 200).await, HoldFound::Live);
            let newcomer = hold(99);
            let plain = Request::check(b"acme").hold(&newcomer);
            let plain = plain.at(Timestamp::from_micros(START + 200).unwrap());
            assert!(opened[1].ask(plain).wait().await.unwrap().is_denied());
            for number in &order[served + 1..] {
                let decision = ask(&opened[2], *number, 0, START + 200).await;
                assert!(decision.is_denied(), "{number} before {next}");
            }
            assert!(ask(&opened[1], next, 15, START + 200).await.is_allowed(), "{next}");
            holder = next;
        }
    }
}

#[tokio::test]
async fn a_waiter_that_dies_is_waited_for_as_long_as_its_ticket_lives_and_not_longer() {
    for (stores, _server) in each(1) {
        let opened = open(&stores[0], "concurrency 1 hold 1min queue 2");
        assert!(ask(&opened, 1, 0, START).await.is_allowed());
        assert_eq!(ahead(&ask(&opened, 2, 0, START).await), 0);
        let half = START + LIVES.as_micros() / 2;
        assert_eq!(ahead(&ask(&opened, 3, 0, half).await), 1);
        let full = ask(&opened, 4, 0, half).await;
        assert!(full.is_denied() && full.queued() == Some(Queued::Full), "{full:?}");
        assert_eq!(end(&opened, 1, half).await, HoldFound::Live);
        let last = START + LIVES.as_micros();
        assert_eq!(ahead(&ask(&opened, 3, 0, last - 1).await), 1, "the dead one still lives");
        assert!(ask(&opened, 3, 0, last).await.is_allowed());
        assert_eq!(end(&opened, 2, last).await, HoldFound::Unknown);
    }
}

#[tokio::test]
async fn an_id_that_is_settled_while_it_waits_leaves_the_queue_and_so_does_everybody_at_a_reset() {
    for (stores, _server) in each(1) {
        let opened = open(&stores[0], "concurrency 1 hold 1min queue 9");
        assert!(ask(&opened, 1, 0, START).await.is_allowed());
        for number in 2..5 {
            let _ = ask(&opened, number, 0, START).await;
        }
        assert_eq!(end(&opened, 2, START).await, HoldFound::Waited);
        assert_eq!(end(&opened, 2, START).await, HoldFound::Unknown);
        assert_eq!(ahead(&ask(&opened, 4, 0, START).await), 1);
        let reset = Request::new(sluicegate::store::Operation::Reset, b"acme");
        let reset = reset.at(Timestamp::from_micros(START).unwrap());
        let _ = opened.ask(reset).wait().await.unwrap();
        assert!(ask(&opened, 9, 0, START).await.is_allowed());
        assert_eq!(ahead(&ask(&opened, 4, 0, START).await), 0);
    }
}

#[tokio::test]
async fn who_would_wait_where_nobody_can_is_told_what_to_change() {
    for (stores, _server) in each(1) {
        for (specs, priority, kind, words) in [
            (&["concurrency 1 hold 1min"][..], 0, RequestErrorKind::Unsupported, "add `queue M`"),
            (
                &["concurrency 1 hold 1min queue 1", "concurrency 2 hold 1min queue 1 as b"],
                0,
                RequestErrorKind::Unsupported,
                "several queues",
            ),
            (&["concurrency 1 hold 1min queue 1"], 16, RequestErrorKind::Invalid, "to 15"),
        ] {
            let limit = sluicegate::Limit::new("jobs", specs.iter().copied()).unwrap();
            let opened = stores[0].open(limit, OpenOptions::default());
            let (hold, ticket) = (hold(1), Ticket { priority, lives: LIVES });
            let request = Request::check(b"acme").hold(&hold).waiting(&ticket);
            let error = opened.ask(request).wait().await.unwrap_err();
            assert_eq!(error.as_request().unwrap().kind(), kind, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
        let opened = open(&stores[0], "concurrency 1 hold 1min queue 1");
        let once = Idempotency { id: RequestId::of("a").unwrap(), lasts: Duration::from_secs(60) };
        let (hold, ticket) = (hold(1), Ticket { priority: 0, lives: LIVES });
        let request = Request::check(b"acme").hold(&hold).waiting(&ticket).idempotent(once);
        let request = request.at(Timestamp::from_micros(START).unwrap());
        let error = opened.ask(request).wait().await.unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("omit the id"), "{error}");
    }
}

#[tokio::test]
async fn who_waits_is_not_counted_as_denied_and_whoever_is_banned_does_not_wait() {
    for (stores, _server) in each(1) {
        let ban: Ban = "2/1min for 1min".parse().unwrap();
        let limit = sluicegate::Limit::new("banning", ["concurrency 1 hold 1min queue 1"]).unwrap();
        let time = TimeSource::Injected { run: "banning".to_owned() };
        let opened = stores[0].open(limit.banning(ban), OpenOptions::default().time(time));
        assert!(ask(&opened, 1, 0, START).await.is_allowed());
        for _ in 0..4 {
            let waiting = ask(&opened, 2, 0, START).await;
            assert_eq!((ahead(&waiting), waiting.ban()), (0, None));
        }
        for begins in [false, true] {
            let full = ask(&opened, 3, 0, START).await;
            assert_eq!(full.queued(), Some(Queued::Full));
            assert_eq!(full.ban().is_some_and(|ban| ban.begins), begins);
        }
        let refused = ask(&opened, 2, 0, START + 10).await;
        assert!(refused.is_denied() && refused.queued().is_none());
        assert!(refused.ban().is_some_and(|ban| !ban.begins));
        assert_eq!(end(&opened, 2, START + 20).await, HoldFound::Waited, "it may leave");
    }
}

/// A waiter polls every 2.5 seconds unless it is notified, so one that is served sooner was notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_wait_are_told_when_their_turn_has_come() {
    const PERMITS: usize = 3;
    const WAITERS: usize = 60;
    for (_, server) in each(1) {
        let limit = || {
            sluicegate::Limit::new(
                "told",
                [format!("concurrency {PERMITS} hold 1min queue 100").as_str()],
            )
            .unwrap()
        };
        let stores: Vec<SharedStore> = match &server {
            None => vec![SharedStore::new(MemoryStore::new())],
            Some(server) => (0..3).map(|_| SharedStore::new(redis(server))).collect(),
        };
        let limiters: Vec<_> =
            stores.iter().map(|store| Arc::new(Limiter::new(store.clone(), limit()))).collect();
        for store in &stores {
            let opened = store.open(limit(), OpenOptions::default());
            until_async("it listens", async || opened.bell(hold(7).id).ok_or("deaf")).await;
        }
        let calls = || -> u64 {
            let measures = stores.iter().flat_map(sluicegate::store::Store::measures);
            measures.filter(|it| it.name() == "store_requests").map(|it| it.value()).sum()
        };
        let before = calls();
        let (in_flight, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let waiters = (0..WAITERS).map(|number| {
            let limiter = Arc::clone(&limiters[number % limiters.len()]);
            let (in_flight, most) = (Arc::clone(&in_flight), Arc::clone(&most));
            tokio::spawn(async move {
                let within = Duration::from_millis(2_400);
                let grant = limiter
                    .check("acme")
                    .hold(Duration::from_secs(60))
                    .within(within)
                    .await
                    .unwrap();
                assert!(grant.is_allowed(), "{grant:?}");
                most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                in_flight.fetch_sub(1, Ordering::SeqCst);
                let settled = limiter.settle(grant.token().unwrap(), Usage::as_charged()).await;
                assert_eq!(settled.unwrap().hold_found(), Some(HoldFound::Live));
            })
        });
        for waiter in waiters.collect::<Vec<_>>() {
            waiter.await.unwrap();
        }
        let most = most.load(Ordering::SeqCst);
        assert!(most <= PERMITS && most > 1, "{most} at once");
        // Enter, take and release; some waiters get one extra notification.
        let each = (calls() - before) as f64 / WAITERS as f64;
        assert!(each <= 5.0, "{each} calls per waiter");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_given_up_leaves_the_queue() {
    for (stores, _server) in each(1) {
        let limit = sluicegate::Limit::new("left", ["concurrency 1 hold 1min queue 9"]).unwrap();
        let limiter = Arc::new(Limiter::new(stores[0].clone(), limit));
        let first = limiter
            .check("acme")
            .hold(Duration::from_secs(60))
            .within(Duration::from_secs(60))
            .await
            .unwrap();
        let waits = || {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move {
                limiter
                    .check("acme")
                    .hold(Duration::from_secs(60))
                    .within(Duration::from_secs(60))
                    .await
            })
        };
        let opened = stores[0].open(limiter.limit().clone(), OpenOptions::default());
        // The number of waiters, as reported to a request at the end of the queue.
        let queued = async || {
            let (hold, ticket) = (hold(9), Ticket { priority: 0, lives: LIVES });
            let request = Request::check(b"acme").hold(&hold).waiting(&ticket);
            let found = ahead(&opened.ask(request).wait().await.unwrap());
            let leave = Request::settle(b"acme", hold.id, &[Some(0)]);
            assert_eq!(
                opened.ask(leave).wait().await.unwrap().hold_found(),
                Some(HoldFound::Waited)
            );
            found
        };
        let dropped = waits();
        until_async("it waits", async || (queued().await == 1).then_some(()).ok_or('?')).await;
        let other = waits();
        until_async("both wait", async || (queued().await == 2).then_some(()).ok_or('?')).await;
        dropped.abort();
        until_async("one has left", async || (queued().await == 1).then_some(()).ok_or('?')).await;
        let _ = limiter.settle(first.token().unwrap(), Usage::nothing()).await.unwrap();
        assert!(other.await.unwrap().unwrap().is_allowed());
    }
}

/// The documented permissions of a server's user are enough for notifications. Without them, decisions are the same.
#[tokio::test]
async fn a_user_may_be_told_or_not_and_decides_all_the_same() {
    for binary in available().unwrap() {
        let server = Server::builder(&binary).start().unwrap();
        let prefix = fresh_prefix("told");
        let text = include_str!("../../../../docs/stores.md");
        let lines = text.lines().filter_map(|line| line.strip_prefix("ACL SETUSER limiter "));
        let words = lines.flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        let rules: Vec<String> = words
            .map(|rule| rule.replace(">PASSWORD", ">pw").replace("~sg", &format!("~{prefix}")))
            .collect();
        let deaf = |rule: &&String| !rule.contains("publish") && !rule.contains("subscribe");
        for (user, hears, rules) in [
            ("told", true, rules.iter().collect::<Vec<_>>()),
            ("untold", false, rules.iter().filter(deaf).collect()),
        ] {
            let rules: Vec<&str> = rules.into_iter().map(String::as_str).collect();
            server.set_user(user, &rules).unwrap();
            let url = format!("redis://{user}:pw@127.0.0.1:{}", server.port());
            let builder = RedisStore::builder(&url).unwrap().prefix(prefix.parse().unwrap());
            let store = builder.deadline(Duration::from_secs(5)).build();
            let limit = sluicegate::Limit::new(user, ["concurrency 1 hold 1min queue 9"]).unwrap();
            let opened = store.open(limit.clone(), OpenOptions::default());
            if hears {
                until_async("it listens", async || opened.bell(hold(7).id).ok_or("deaf")).await;
            }
            let limiter = Limiter::new(store, limit);
            let first = limiter
                .check("acme")
                .hold(Duration::from_secs(60))
                .within(Duration::from_secs(1))
                .await
                .unwrap();
            let (second, settled) = tokio::join!(
                limiter.check("acme").hold(Duration::from_secs(60)).within(Duration::from_secs(1)),
                limiter.settle(first.token().unwrap(), Usage::nothing()),
            );
            assert!(settled.unwrap().is_allowed());
            assert!(second.unwrap().is_allowed(), "{user}");
            assert_eq!(opened.bell(hold(7).id).is_some(), hears, "{user}");
        }
    }
}
