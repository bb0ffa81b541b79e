//! Requests that are asked in one batch are one call of the script, or one per slot.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_core::{
    Decision, Error, Limit, OpenOptions, OpenedLimit as _, Request, Store as _, Timestamp, batched,
};
use sluicegate_redis::{RedisLimit, RedisStore, RedisStoreBuilder};
use sluicegate_testkit::servers::{self, Cluster, Server};
use tokio::task::JoinSet;

const REQUESTS: usize = 64;

fn built(builder: RedisStoreBuilder) -> RedisStore {
    let prefix = servers::fresh_prefix("batch").parse().unwrap();
    builder.prefix(prefix).deadline(Duration::from_secs(20)).build()
}

/// Opens limits that count every request.
fn open_all(store: &RedisStore) -> Vec<RedisLimit> {
    let limit = |number| {
        Limit::new(format!("limit-{number}"), ["fixed_window 2/h aligned count_denied"]).unwrap()
    };
    (0..REQUESTS).map(|number| store.open(limit(number), OpenOptions::default())).collect()
}

fn calls(server: &Server) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

async fn ask_all(limits: &[RedisLimit], key: &str) -> Vec<Result<Decision, Error>> {
    batched(limits.iter().map(|limit| Box::pin(limit.ask(Request::check(key.as_bytes())).wait())))
        .await
}

fn used(answers: &[Result<Decision, Error>]) -> Vec<u64> {
    let used = |answer: &Result<Decision, Error>| {
        answer.as_ref().unwrap().policies().next().unwrap().used().unwrap()
    };
    answers.iter().map(used).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_one_call_with_any_number_of_connections_and_batch_size() {
    for (connections, batch) in [(1, 32), (4, 32), (1, 1)] {
        let server = Server::start().unwrap();
        let [connections, batch] = [connections, batch].map(|it| NonZeroUsize::new(it).unwrap());
        let builder = RedisStore::builder(&server.url()).unwrap();
        let store = built(builder.connections(connections).batch(batch));
        let limits = open_all(&store);
        // The first call of each connection sends the script.
        for _ in 0..16 {
            assert_eq!(used(&ask_all(&limits, "warm").await).len(), REQUESTS);
        }
        let before = calls(&server);
        for round in 1..=3 {
            let answers = ask_all(&limits, "alice").await;
            assert_eq!(used(&answers), [round; REQUESTS]);
            assert!(answers.iter().all(|it| it.as_ref().unwrap().is_allowed() == (round < 3)));
        }
        assert_eq!(calls(&server) - before, 3, "{connections} connections, {batch} calls");
        // One limit asked several times counts each time, in order.
        let before = calls(&server);
        let same = limits.iter().map(|_| Box::pin(limits[0].ask(Request::check(b"bob")).wait()));
        let expected: Vec<u64> = (1..=REQUESTS as u64).collect();
        assert_eq!(used(&batched(same).await), expected);
        assert_eq!(calls(&server) - before, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_one_call_among_other_callers() {
    for binary in servers::available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = built(RedisStore::builder(&server.url()).unwrap());
        let (limits, others) = (Arc::new(open_all(&store)), Arc::new(open_all(&store)));
        let is_over = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for task in 0..8 {
            let (others, is_over) = (Arc::clone(&others), Arc::clone(&is_over));
            tasks.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let key = format!("other-{task}");
                    assert!(others[task].ask(Request::check(key.as_bytes())).wait().await.is_ok());
                }
            });
        }
        for _ in 0..3 {
            let limits = Arc::clone(&limits);
            tasks.spawn(async move {
                for _ in 0..50 {
                    let answers = ask_all(&limits, "alice").await;
                    // A call of the script has one time.
                    let at = |answer: &Result<Decision, Error>| {
                        answer.as_ref().unwrap().evaluated_at().unwrap()
                    };
                    let times: HashSet<Timestamp> = answers.iter().map(at).collect();
                    assert_eq!(times.len(), 1, "{times:?}");
                }
            });
        }
        while tasks.len() > 8 {
            tasks.join_next().await.unwrap().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert_eq!(used(&ask_all(&limits, "alice").await), [151; REQUESTS]);
    }
}

#[tokio::test]
async fn a_caller_that_gives_up_halfway_leaves_no_call_behind_that_holds_others_up() {
    let server = Server::start().unwrap();
    let store = built(RedisStore::builder(&server.url()).unwrap());
    let limits = open_all(&store);
    assert_eq!(used(&ask_all(&limits, "alice").await), [1; REQUESTS]);
    for _ in 0..20 {
        tokio::select! {
            biased;
            _ = ask_all(&limits, "alice") => panic!("a server answers later"),
            () = std::future::ready(()) => {}
        }
    }
    // It was polled once, and dropped before the connection took anything.
    assert_eq!(used(&ask_all(&limits, "alice").await), [2; REQUESTS]);
    let answered = used(&ask_all(&limits[..32], "alice").await);
    assert_eq!(answered, [3; 32]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_one_call_per_slot_of_a_cluster() {
    for binary in servers::available().unwrap() {
        let cluster = Cluster::builder(&binary).replicas(0).start().unwrap();
        let hosts = cluster.urls();
        let hosts: Vec<_> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
        let url = format!("redis+cluster://{}", hosts.join(","));
        let store = built(RedisStore::builder(&url).unwrap());
        let limits = open_all(&store);
        let keys: Vec<String> = (0..8).map(|key| format!("key-{key}")).collect();
        let ask = || async {
            let each = limits.iter().enumerate();
            batched(each.map(|(number, limit)| {
                Box::pin(limit.ask(Request::check(keys[number % keys.len()].as_bytes())).wait())
            }))
            .await
        };
        for _ in 0..4 {
            let _ = ask().await;
        }
        let calls = || cluster.nodes().iter().map(|node| calls(node.server())).sum::<usize>();
        let slots: HashSet<u16> =
            keys.iter().map(|key| cluster.slot_of(key.as_bytes()).unwrap()).collect();
        let before = calls();
        assert_eq!(used(&ask().await), [5; REQUESTS]);
        assert_eq!(calls() - before, slots.len());
    }
}
