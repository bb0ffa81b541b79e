//! Several connections to each server: every one is used, a key stays on one, and a broken one only fails its
//! own calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreError, StoreErrorKind,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::{self, Cluster, Server};
use sluicegate_testkit::wait::until_async;
use tokio::task::JoinSet;

const SUBJECTS: u32 = 64;
const CALLS: u64 = 1_000;

fn store(url: &str, connections: usize) -> RedisStore {
    let builder = RedisStore::builder(url).unwrap();
    builder
        .prefix(servers::fresh_prefix("connections").parse().unwrap())
        .connections(NonZeroUsize::new(connections).unwrap())
        .deadline(Duration::from_secs(20))
        .build()
}

fn open(store: &RedisStore) -> Arc<RedisLimit> {
    let limit = Limit::new("test", [format!("token_bucket 1/d burst {CALLS}")]).unwrap();
    Arc::new(store.open(limit, OpenOptions::default()))
}

async fn check(opened: &RedisLimit, subject: &str) -> Result<u64, StoreError> {
    let answer = opened.ask(Request::check(subject.as_bytes())).wait().await;
    answer
        .map(|decision| decision.remaining().unwrap())
        .map_err(|error| error.as_store().unwrap().clone())
}

/// Checks all subjects at the same time.
async fn check_all(opened: &Arc<RedisLimit>) -> Vec<Result<u64, StoreError>> {
    let mut calls = JoinSet::new();
    for subject in 0..SUBJECTS {
        let opened = Arc::clone(opened);
        calls.spawn(async move { check(&opened, &subject.to_string()).await });
    }
    calls.join_all().await
}

/// Returns the ids of the connections on which the script was called.
fn used(server: &Server) -> BTreeSet<String> {
    let list = server.cli(&["CLIENT", "LIST"]).unwrap();
    let calls = list.lines().filter(|line| line.contains(" cmd=eval"));
    let field = |word: &str| word.strip_prefix("id=").map(str::to_owned);
    calls.filter_map(|line| line.split_whitespace().find_map(field)).collect()
}

fn each() -> Vec<Server> {
    let binaries = servers::available().unwrap();
    binaries.iter().map(|binary| Server::builder(binary).start().unwrap()).collect()
}

#[tokio::test]
async fn every_connection_is_used_and_there_are_no_more_than_asked_for() {
    for server in each() {
        let one = store(&server.url(), 1);
        check_all(&open(&one)).await.into_iter().for_each(|answer| _ = answer.unwrap());
        assert_eq!(used(&server).len(), 1);
        drop(one);

        let several = store(&server.url(), 4);
        let opened = open(&several);
        until_async("the first store's connection to end", async || match used(&server).len() {
            0 => Ok(()),
            open => Err(open),
        })
        .await;
        for _ in 0..3 {
            check_all(&opened).await.into_iter().for_each(|answer| _ = answer.unwrap());
        }
        several.ping().await.unwrap();
        assert_eq!(used(&server).len(), 4);
        drop((opened, several));
        until_async("all connections to end", async || match used(&server).len() {
            0 => Ok(()),
            open => Err(open),
        })
        .await;

        let most = store(&server.url(), 1_000);
        let opened = open(&most);
        for _ in 0..3 {
            check_all(&opened).await.into_iter().for_each(|answer| _ = answer.unwrap());
        }
        assert!(used(&server).len() <= 16, "{}", used(&server).len());
    }
}

/// So they are decided in the order of arrival, and many are in one call.
#[tokio::test]
async fn all_calls_about_a_key_go_the_same_way() {
    for server in each() {
        let store = store(&server.url(), 4);
        let opened = open(&store);
        check(&opened, "alice").await.unwrap();
        // Calls are batched while the server decides nothing.
        server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
        let mut calls = JoinSet::new();
        for turn in 0..300 {
            let opened = Arc::clone(&opened);
            calls.spawn(async move { (turn, check(&opened, "alice").await.unwrap()) });
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        server.cli(&["CLIENT", "UNPAUSE"]).unwrap();
        for (turn, left) in calls.join_all().await {
            assert_eq!(left, CALLS - 2 - turn, "in the order in which they came");
        }
        assert_eq!(used(&server).len(), 1);
        let sent = store.measures()[0].value();
        assert!(sent <= 30, "{sent} calls for 301 requests");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_fails_its_own_calls_and_no_others() {
    for server in each() {
        let store = store(&server.url(), 4);
        let opened = open(&store);
        check_all(&opened).await.into_iter().for_each(|answer| _ = answer.unwrap());
        let before = used(&server);
        assert_eq!(before.len(), 4);
        let sent = |store: &RedisStore| store.measures()[1].value();
        // Some calls are sent twice, because the server didn't know the script.
        let sent_before = sent(&store);
        // The calls stay outstanding.
        server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
        let asking = tokio::spawn({
            let opened = Arc::clone(&opened);
            async move { check_all(&opened).await }
        });
        until_async("all calls to be sent", async || match sent(&store) - sent_before {
            sent if sent >= u64::from(SUBJECTS) => Ok(()),
            sent => Err(sent),
        })
        .await;
        let victim = before.first().unwrap();
        server.cli(&["CLIENT", "KILL", "ID", victim]).unwrap();
        until_async("the connection to end", async || match used(&server) {
            left if left.contains(victim) => Err(left),
            _ => Ok(()),
        })
        .await;
        server.cli(&["CLIENT", "UNPAUSE"]).unwrap();
        let answers = asking.await.unwrap();
        let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert!(!failed.is_empty() && failed.len() < answers.len() / 2, "{failed:?}");
        for error in failed {
            assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
        }
        // The broken connection is replaced, and the others have stayed.
        check_all(&opened).await.into_iter().for_each(|answer| _ = answer.unwrap());
        let after = used(&server);
        assert_eq!((after.len(), after.intersection(&before).count()), (4, 3));
    }
}

#[tokio::test]
async fn each_node_of_a_cluster_has_as_many() {
    for binary in servers::available().unwrap() {
        let cluster = Cluster::builder(&binary).replicas(0).start().unwrap();
        let url = cluster.urls()[0].replace("redis://", "redis+cluster://");
        let store = store(&url, 2);
        let opened = open(&store);
        for _ in 0..2 {
            check_all(&opened).await.into_iter().for_each(|answer| _ = answer.unwrap());
        }
        for node in cluster.nodes() {
            assert_eq!(used(node.server()).len(), 2);
        }
    }
}
