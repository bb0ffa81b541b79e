//! Notifications of waiters on clusters and behind sentinels, also after a failover.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate::decision::HoldId;
use sluicegate::store::{OpenOptions, OpenedLimit as _, SharedStore, Store as _};
use sluicegate::{Grant, Limiter, RedisStore, Usage};
use sluicegate_testkit::servers::{Cluster, Sentinels, Server, available};
use sluicegate_testkit::wait::until_async;

const SPEC: &str = "concurrency 1 hold 1min queue 9";
/// A waiter without notifications polls after two and a half seconds.
const SOON: Duration = Duration::from_millis(2_400);

fn limiter(url: &str) -> Limiter<SharedStore> {
    let store = RedisStore::builder(url).unwrap().deadline(Duration::from_secs(5)).build();
    Limiter::new(SharedStore::new(store.clone()), sluicegate::Limit::new("jobs", [SPEC]).unwrap())
}

/// Waits until its process receives notifications, or none any more.
async fn until_it_hears(limiter: &Limiter<SharedStore>, hears: bool) {
    let opened = limiter.store().open(limiter.limit().clone(), OpenOptions::default());
    let id = HoldId::from_bytes([0; 16]);
    until_async("it hears, or does not", async || match opened.bell(id).is_some() {
        it if it == hears => Ok(()),
        it => Err(it),
    })
    .await;
}

async fn waits(limiter: &Limiter<SharedStore>, key: &str) -> Result<Grant, sluicegate::Error> {
    limiter.check(key).hold(Duration::from_secs(60)).within(Duration::from_secs(60)).await
}

/// Checks that a waiter is notified when the holder releases its permit.
async fn is_told(limiter: &Limiter<SharedStore>, key: &str) {
    let held = until_async("the store decides", async || waits(limiter, key).await).await;
    let waiter = tokio::spawn({
        let (limiter, key) = (limiter.clone(), key.to_owned());
        async move { waits(&limiter, &key).await }
    });
    until_async("it waits", async || {
        // A ticket leaves nothing to others.
        let look = limiter.check(key).hold(Duration::from_secs(1)).within(Duration::from_millis(1));
        match look.await.map(|denied| denied.queued()) {
            Ok(Some(sluicegate::store::Queued::Waits { ahead: 1, .. })) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let settled = limiter.settle(held.token().unwrap(), Usage::nothing()).await.unwrap();
    assert!(settled.is_allowed());
    let served = tokio::time::timeout(SOON, waiter).await;
    let served = served.unwrap_or_else(|_| panic!("nobody told who waits for {key}"));
    let served = served.unwrap().unwrap();
    let _ = limiter.settle(served.token().unwrap(), Usage::nothing()).await.unwrap();
}

/// For any node that the process listens to, and any node that has the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_cluster_tells_and_so_does_the_one_that_takes_over() {
    for binary in available().unwrap() {
        let mut cluster = Cluster::builder(&binary).primaries(3).replicas(1).start().unwrap();
        let hosts: Vec<String> = cluster.urls();
        let hosts: Vec<&str> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
        let url = format!("redis+cluster://{}", hosts.join(","));
        let limiters: Vec<_> = (0..4).map(|_| limiter(&url)).collect();
        let keys = ["a", "b", "c", "d"];
        for (limiter, key) in limiters.iter().flat_map(|one| keys.map(|key| (one, key))) {
            until_it_hears(limiter, true).await;
            is_told(limiter, key).await;
        }
        let slot = cluster.slot_of(b"a").unwrap();
        let _new = cluster.kill_primary_of(slot).unwrap();
        for (limiter, key) in limiters.iter().flat_map(|one| keys.map(|key| (one, key))) {
            until_it_hears(limiter, true).await;
            is_told(limiter, key).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_that_sentinels_name_tells_and_so_does_its_successor() {
    for binary in available().unwrap() {
        let mut sentinels = Sentinels::builder(&binary).start().unwrap();
        let hosts: Vec<String> = sentinels
            .sentinels()
            .iter()
            .map(|server| format!("127.0.0.1:{}", server.port()))
            .collect();
        let url = format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name());
        let limiter = limiter(&url);
        until_it_hears(&limiter, true).await;
        is_told(&limiter, "a").await;
        let _new = sentinels.kill_primary().unwrap();
        until_it_hears(&limiter, true).await;
        is_told(&limiter, "a").await;
    }
}

/// Nothing closes the connection: only a request shows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing_any_more_is_not_listened_to() {
    for binary in available().unwrap() {
        let mut server = Server::builder(&binary).start().unwrap();
        let limiter = limiter(&server.url());
        until_it_hears(&limiter, true).await;
        server.pause().unwrap();
        until_it_hears(&limiter, false).await;
        server.resume().unwrap();
        until_it_hears(&limiter, true).await;
        is_told(&limiter, "a").await;
    }
}
