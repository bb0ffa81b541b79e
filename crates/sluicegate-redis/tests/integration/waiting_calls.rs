//! Calls that wait for a server. No call is sent for a caller who gave up. A refusing server isn't retried
//! for a while. A connection that broke without an error is detected.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate_core::{
    Cost, Costs, Error, Limit, OpenOptions, OpenedLimit as _, Operation, Request, Store as _,
    StoreError, StoreErrorKind,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::proxy::{Proxy, ReplyFault};
use sluicegate_testkit::servers::{self, FakeClock, Server};
use sluicegate_testkit::wait::until_async;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Longer than any operation takes, even on a busy machine.
const LONG: u64 = 20_000;
const FULL: u64 = 100_000;

/// Sends each call on its own, because equal ones would be one call.
fn store(port: u16) -> RedisStore {
    RedisStore::builder(&format!("redis://127.0.0.1:{port}"))
        .unwrap()
        .prefix(servers::fresh_prefix("wait").parse().unwrap())
        .batch(NonZeroUsize::MIN)
        .build()
}

/// Opens a limit with enough units of a key for any test.
fn open(store: &RedisStore, deadline_ms: u64) -> Arc<RedisLimit> {
    let limit = Limit::new("test", [format!("token_bucket 1/d burst {FULL}")]).unwrap();
    let deadline = Duration::from_millis(deadline_ms);
    Arc::new(store.open(limit, OpenOptions::default().deadline(deadline)))
}

async fn ask(opened: &RedisLimit, operation: Operation<'_>) -> Result<u64, StoreError> {
    match opened.ask(Request::new(operation, b"alice")).wait().await {
        Ok(decision) => Ok(decision.remaining().unwrap()),
        Err(Error::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

async fn check(opened: &RedisLimit) -> Result<u64, StoreError> {
    ask(opened, Operation::Check).await
}

#[tokio::test]
async fn what_may_be_charged_is_what_was_sent_and_the_rest_says_that_nothing_was() {
    let mut server = Server::start().unwrap();
    let store = store(server.port());
    let (patient, hasty) = (open(&store, LONG), open(&store, 100));
    check(&patient).await.unwrap();
    server.pause().unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..2_000 {
        let hasty = Arc::clone(&hasty);
        calls.spawn(async move { check(&hasty).await.unwrap_err() });
    }
    let (mut unsent, mut unknown) = (0, 0);
    while let Some(error) = calls.join_next().await {
        let error = error.unwrap();
        if error.kind() == StoreErrorKind::Timeout {
            assert!(error.to_string().contains("whether it charged is unknown"), "{error}");
            unknown += 1;
        } else {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("nothing was charged"), "{error}");
            unsent += 1;
        }
    }
    assert!(unsent > 0 && unknown > 0, "{unsent} and {unknown}");
    server.resume().unwrap();
    let left = ask(&patient, Operation::Peek).await.unwrap();
    // Most of the sent calls also arrived after their callers' deadlines.
    assert!(FULL - 1 - left <= unknown, "{left}: {unsent} were not sent");
}

#[tokio::test]
async fn a_call_that_is_dropped_before_it_was_sent_is_never_sent() {
    let mut server = Server::start().unwrap();
    let store = store(server.port());
    let opened = open(&store, LONG);
    check(&opened).await.unwrap();
    server.pause().unwrap();
    // More calls than are sent at the same time, and then additional ones.
    let ahead: Vec<_> = (0..1_000)
        .map(|_| {
            let opened = Arc::clone(&opened);
            tokio::spawn(async move { check(&opened).await })
        })
        .collect();
    let mut dropped = JoinSet::new();
    for _ in 0..500 {
        let opened = Arc::clone(&opened);
        dropped.spawn(async move { check(&opened).await });
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    dropped.shutdown().await;
    server.resume().unwrap();
    for call in ahead {
        call.await.unwrap().unwrap();
    }
    assert_eq!(ask(&opened, Operation::Peek).await.unwrap(), FULL - 1_001);
}

/// Accepts connections and breaks them, and counts them.
async fn breaks_connections(listener: TcpListener, count: Arc<AtomicUsize>) {
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        count.fetch_add(1, Ordering::Relaxed);
        drop(connection);
    }
}

#[tokio::test]
async fn a_server_that_refuses_is_asked_less_and_less_often() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    tokio::spawn(breaks_connections(listener, Arc::clone(&count)));
    let (store, start) = (store(port), Instant::now());
    let opened = open(&store, 50);
    for _ in 0..2_000 {
        let error = check(&opened).await.unwrap_err();
        assert!(error.to_string().contains("nothing was charged"), "{error}");
    }
    // Pauses of at least 5, 10, 20 … 500 ms; an attempt connects three times to find out the problem.
    let attempts = 9 + start.elapsed().as_millis() / 500;
    let count = count.load(Ordering::Relaxed);
    assert!(count as u128 <= 3 * attempts, "{count} connections in {:?}", start.elapsed());
}

/// Forwards connections to a server. The first one falls silent on command, and stays open.
async fn falls_silent(
    listener: TcpListener,
    to: u16,
    silent: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        let silent = Arc::clone(&silent);
        tokio::spawn(async move {
            let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            let mut bytes = vec![0; 1 << 16];
            loop {
                let (from, into) = tokio::select! {
                    ready = client.readable() => ready.map(|()| (&client, &server)).unwrap(),
                    ready = server.readable() => ready.map(|()| (&server, &client)).unwrap(),
                };
                match from.try_read(&mut bytes) {
                    Ok(0) => return,
                    Ok(_) if is_first && silent.load(Ordering::Relaxed) => {}
                    Ok(length) => {
                        into.writable().await.unwrap();
                        assert_eq!(into.try_write(&bytes[..length]).unwrap(), length);
                    }
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                }
            }
        });
    }
}

#[tokio::test]
async fn a_connection_that_died_without_a_word_is_replaced() {
    let server = Server::start().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (silent, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(falls_silent(listener, server.port(), Arc::clone(&silent), Arc::clone(&count)));
    let store = store(port);
    let (patient, hasty) = (open(&store, LONG), open(&store, 100));
    check(&patient).await.unwrap();
    silent.store(true, Ordering::Relaxed);
    let error = check(&hasty).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    // A call that would have waited long fails as soon as the silence is detected.
    let waiting = tokio::spawn(async move { check(&patient).await });
    until_async("an answer on another connection", async || check(&hasty).await).await;
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
    assert!(error.to_string().contains("fell silent on this connection"), "{error}");
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_server_that_is_only_busy_keeps_its_connection() {
    let mut server = Server::start().unwrap();
    let store = store(server.port());
    let (patient, hasty) = (open(&store, LONG), open(&store, 20));
    let connections = |server: &Server| -> u64 {
        let stats = server.cli(&["INFO", "stats"]).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse().unwrap()
    };
    check(&patient).await.unwrap();
    let before = connections(&server);
    server.pause().unwrap();
    for _ in 0..25 {
        check(&hasty).await.unwrap_err();
    }
    server.resume().unwrap();
    check(&patient).await.unwrap();
    // The connection of this query, and the other one that was tried meanwhile.
    let after = connections(&server);
    assert!(after - before <= 3, "{before} connections, and then {after}");
}

/// Returns a store that batches calls.
fn store_at(url: &str) -> RedisStore {
    RedisStore::builder(url).unwrap().prefix(servers::fresh_prefix("wait").parse().unwrap()).build()
}

/// Before, the first caller woke the connection. It sent that call and then the second one's, each alone,
/// before the others had sent theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn those_who_are_told_together_ask_together() {
    const ROUNDS: usize = 50;
    let server = Server::start().unwrap();
    let opened = open(&store_at(&server.url()), LONG);
    check(&opened).await.unwrap();
    let calls = |server: &Server| -> usize {
        let stats = server.cli(&["INFO", "commandstats"]).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|line| line.split(',').next()).unwrap().parse().unwrap()
    };
    let before = calls(&server);
    let asking = async move {
        let mut tasks = JoinSet::new();
        for task in 0..16 {
            let opened = Arc::clone(&opened);
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let key = format!("{task}");
                    let decision = opened.ask(Request::check(key.as_bytes())).wait().await;
                    assert!(decision.unwrap().is_allowed());
                }
            });
        }
        tasks.join_all().await;
    };
    tokio::spawn(asking).await.unwrap();
    let calls = calls(&server) - before;
    assert!((ROUNDS..ROUNDS * 2).contains(&calls), "{calls}");
}

#[tokio::test]
async fn what_reaches_a_server_when_nobody_waits_for_it_any_more_is_not_charged() {
    for binary in servers::available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let store = store_at(&server.url());
        let (patient, hasty, last) = (open(&store, LONG), open(&store, 50), open(&store, 500));
        assert_eq!(check(&patient).await.unwrap(), FULL - 1);
        server.pause().unwrap();
        let calls: JoinSet<_> = (0..300)
            .map(|_| {
                let hasty = Arc::clone(&hasty);
                async move { check(&hasty).await.unwrap_err().kind() }
            })
            .collect();
        // Nine tenths of this call's time come after all of theirs.
        let (_, kinds) = tokio::join!(check(&last), calls.join_all());
        assert!(kinds.contains(&StoreErrorKind::Timeout), "{kinds:?}");
        server.resume().unwrap();
        let left = ask(&patient, Operation::Peek).await.unwrap();
        assert!(
            (FULL - 2..FULL).contains(&left),
            "{left}: the last one alone may have been in time"
        );
    }
}

#[tokio::test]
async fn a_server_whose_clock_is_set_an_hour_forward_answers_every_call() {
    // Redis doesn't use such a clock.
    let binaries = servers::available().unwrap();
    let valkey = binaries.iter().find(|binary| binary.product() == "valkey").unwrap();
    let clock = FakeClock::new().unwrap();
    let server = Server::builder(valkey).clock(&clock).start().unwrap();
    let store = store_at(&server.url());
    let opened = open(&store, LONG);
    for (hour, left) in [(1, FULL - 2), (2, FULL - 4), (-3, FULL - 6)] {
        assert_eq!(check(&opened).await.unwrap(), left + 1);
        clock.set_offset(hour * 3_600).unwrap();
        assert_eq!(check(&opened).await.unwrap(), left, "after a step to {hour} h");
    }
}

#[tokio::test]
async fn a_proxy_that_swaps_repeats_drops_or_truncates_replies_is_found_out_and_answers_for_nobody()
{
    let server = Server::start().unwrap();
    for (fault, cause) in [
        (ReplyFault::Swap, Some("repeat, drop or reorder replies")),
        (ReplyFault::Duplicate, None),
        (ReplyFault::Drop, None),
        (ReplyFault::Truncate, Some("truncate or corrupt replies")),
    ] {
        let proxy = Proxy::start(server.port()).unwrap();
        let store = store_at(&proxy.url());
        let opened = open(&store, 1_000);
        let keys = |round: u64| (0..2).map(move |key| format!("{round} {key}"));
        // Two keys, one with fewer remaining units than the other.
        let take = async |round: u64| {
            for (cost, key) in keys(round).enumerate() {
                let cost = Cost::new(10 * (cost as u64 + 1)).unwrap();
                let check = Request::check(key.as_bytes()).costs(Costs::Same(cost));
                assert!(opened.ask(check).wait().await.unwrap().is_allowed());
            }
        };
        take(0).await;
        proxy.set_next_reply(fault);
        let (mut errors, mut texts) = (0, Vec::new());
        let told = Mutex::new(&mut texts);
        for _ in 0..20 {
            let peeks = keys(0).map(|key| {
                let (opened, told) = (Arc::clone(&opened), &told);
                async move {
                    match opened.ask(Request::new(Operation::Peek, key.as_bytes())).wait().await {
                        Ok(decision) => Some(decision.remaining().unwrap()),
                        Err(Error::Store(error)) => {
                            let kind = error.kind();
                            let known = [StoreErrorKind::Disconnected, StoreErrorKind::Timeout];
                            assert!(known.contains(&kind), "{error}");
                            assert!(error.to_string().contains("whether it charged"), "{error}");
                            told.lock().unwrap().push(error.to_string());
                            None
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            let mut peeks: Vec<_> = peeks.map(Box::pin).collect();
            let (second, first) = (peeks.pop().unwrap(), peeks.pop().unwrap());
            let (first, second) = tokio::join!(first, second);
            for (answer, right) in [(first, FULL - 10), (second, FULL - 20)] {
                assert!(answer.is_none_or(|left| left == right), "{fault:?}: {answer:?}");
                errors += usize::from(answer.is_none());
            }
        }
        assert!(proxy.has_met_a_reply(), "{fault:?}");
        if let Some(cause) = cause {
            assert!(texts.iter().any(|text| text.contains(cause)), "{fault:?}: {texts:?}");
        }
        let of_others = |text: &String| text.contains("runtime") || text.contains("protocol");
        assert!(!texts.iter().any(of_others), "{fault:?}: {texts:?}");
        // A duplicated reply may arrive when no caller waits.
        let least = usize::from(fault != ReplyFault::Duplicate);
        assert!((least..40).contains(&errors), "{fault:?}: {errors} of 40");
        assert!(proxy.accepted() > 1, "{fault:?}: the connection was used on");
        proxy.heal();
        take(1).await;
    }
}

#[tokio::test]
async fn a_key_that_is_something_else_spoils_no_call_that_travels_with_its_own() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("spoilt");
        let store = RedisStore::builder(&server.url())
            .unwrap()
            .prefix(prefix.parse().unwrap())
            .batch(NonZeroUsize::new(64).unwrap())
            .build();
        let limit = Limit::new("test", ["sliding_log 9/h"]).unwrap();
        let deadline = Duration::from_millis(LONG);
        let opened = Arc::new(store.open(limit, OpenOptions::default().deadline(deadline)));
        let check = |key: u64| {
            let opened = Arc::clone(&opened);
            async move { opened.ask(Request::check(key.to_string().as_bytes())).wait().await.unwrap() }
        };
        assert!(check(7).await.is_allowed());
        for key in server.cli(&["KEYS", &format!("{prefix}*")]).unwrap().lines() {
            server.cli(&["DEL", key]).unwrap();
            server.cli(&["LPUSH", key, "something else"]).unwrap();
        }
        let calls: JoinSet<_> = (0..50).map(check).collect();
        let allowed = calls.join_all().await.iter().filter(|answer| answer.is_allowed()).count();
        assert_eq!(allowed, 50, "what is something else is written anew");
    }
}
