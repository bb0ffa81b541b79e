//! Callers that can wait, and a server that isn't connected yet or isn't there.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate::error::StoreErrorKind;
use sluicegate::store::{SharedStore, Store as _};
use sluicegate::{Limiter, RedisStore};
use sluicegate_testkit::proxy::{Direction, Fault, Proxy};
use sluicegate_testkit::servers::{Server, fresh_prefix};
use sluicegate_testkit::wait::until_async;
use tokio::task::JoinSet;

const MINUTE: Duration = Duration::from_secs(60);

fn store(url: &str) -> RedisStore {
    RedisStore::builder(url).unwrap().prefix(fresh_prefix("first").parse().unwrap()).build()
}

fn limiter(url: &str, spec: &str) -> Arc<Limiter> {
    let limit = sluicegate::Limit::new("l", [spec]).unwrap();
    Arc::new(Limiter::new(SharedStore::new(store(url)), limit))
}

/// Waits until a call without time to wait has failed: then its deadline of 50 ms has passed.
async fn outlast_a_deadline(limiter: &Limiter) {
    let error = limiter.peek("another").await.unwrap_err();
    let kind = error.as_store().unwrap().kind();
    assert_eq!(kind, StoreErrorKind::Unavailable, "{error}");
}

const WAYS: [&str; 3] =
    ["gcra 1000/s burst 1000", "fixed_window 1000/s", "concurrency 1000 hold 1min queue 10"];

/// Acquires, by a permit where the limit has permits.
async fn acquire(
    limiter: &Limiter,
    key: &str,
    within: Duration,
) -> Result<bool, sluicegate::Error> {
    if limiter.limit().has_permits() {
        let grant = limiter.check(key).hold(MINUTE).within(within).await?;
        return Ok(grant.is_allowed());
    }
    Ok(limiter.check(key).within(within).await?.is_allowed())
}

/// 144 of a worker's first 240 calls failed because its connection took longer than their deadline.
#[tokio::test]
async fn the_first_calls_of_a_worker_wait_for_its_connection() {
    let server = Server::start().unwrap();
    for spec in WAYS {
        let proxy = Proxy::start(server.port()).unwrap();
        proxy.set(Direction::Replies, Fault::Hold);
        let limiter = limiter(&proxy.url(), spec);
        let mut calls = JoinSet::new();
        for number in 0..240 {
            let limiter = Arc::clone(&limiter);
            let key = format!("k{}", number % 7);
            calls.spawn(async move { acquire(&limiter, &key, MINUTE).await });
        }
        outlast_a_deadline(&limiter).await;
        assert!(calls.try_join_next().is_none(), "{spec}: nothing has failed");
        proxy.heal();
        while let Some(call) = calls.join_next().await {
            assert!(call.unwrap().unwrap(), "{spec}");
        }
    }
}

#[tokio::test]
async fn a_caller_that_waits_calls_again_until_the_server_is_there() {
    let mut server = Server::start().unwrap();
    for spec in WAYS {
        server.kill().unwrap();
        let limiter = limiter(&server.url(), spec);
        let calling = {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { acquire(&limiter, "k", MINUTE).await })
        };
        outlast_a_deadline(&limiter).await;
        // As long as the wait, and no longer.
        let begin = tokio::time::Instant::now();
        let within = Duration::from_millis(300);
        let error = acquire(&limiter, "k", within).await.unwrap_err();
        assert!(begin.elapsed() >= Duration::from_millis(300), "{spec}: {error}");
        assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(!calling.is_finished(), "{spec}");
        server.restart().unwrap();
        assert!(calling.await.unwrap().unwrap(), "{spec}");
    }
}

#[tokio::test]
async fn a_ping_at_the_start_waits_for_the_connection() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    proxy.set(Direction::Replies, Fault::Hold);
    let store = store(&proxy.url());
    let pinging = tokio::spawn({
        let store = store.clone();
        async move { store.ping().await }
    });
    let limit = sluicegate::Limit::new("l", ["gcra 1/s"]).unwrap();
    outlast_a_deadline(&Limiter::new(SharedStore::new(store), limit)).await;
    assert!(!pinging.is_finished());
    proxy.heal();
    pinging.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_attempt_to_connect_ends_after_its_own_deadline() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    proxy.set(Direction::Replies, Fault::Hold);
    let store = RedisStore::builder(&proxy.url()).unwrap();
    // An open connection answers in time, regardless of the load of the machine.
    let store = store.deadline(MINUTE).connect_deadline(Duration::from_millis(100)).build();
    let limit = sluicegate::Limit::new("l", ["gcra 1000/s"]).unwrap();
    let limiter = Arc::new(Limiter::new(store, limit));
    let calling = {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move { limiter.check("k").within(MINUTE).await })
    };
    until_async("another attempt", async || {
        if proxy.accepted() > 1 { Ok(()) } else { Err(proxy.accepted()) }
    })
    .await;
    proxy.heal();
    assert!(calling.await.unwrap().unwrap().is_allowed());
}
