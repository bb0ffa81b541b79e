//! Split networks, and the deciding server in them. Sentinels, primaries and nodes that were cut off keep
//! running without noticing the split.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and prints how long an isolated primary continued"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sluicegate_core::{
    Error, KeyPrefix, Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreError,
};
use sluicegate_redis::{RedisLimit, RedisStore, RedisStoreBuilder};
use sluicegate_testkit::proxy::{Cut, Direction, Fault, Proxy};
use sluicegate_testkit::servers::{self, Cluster, Sentinels, Server, ServerBinary};
use sluicegate_testkit::wait::until_async;

fn builder(url: &str) -> RedisStoreBuilder {
    let prefix = servers::fresh_prefix("splits").parse().unwrap();
    RedisStore::builder(url).unwrap().prefix(prefix).deadline(Duration::from_secs(1))
}

fn open(store: &RedisStore, spec: &str) -> RedisLimit {
    let limit = Limit::new("test", vec![spec]).unwrap();
    store.open(limit, OpenOptions::default())
}

async fn check(opened: &RedisLimit, key: &str) -> Result<bool, StoreError> {
    match opened.ask(Request::check(key.as_bytes())).wait().await {
        Ok(decision) => Ok(decision.is_allowed()),
        Err(Error::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

async fn check_until_answered(opened: &RedisLimit, key: &str) -> bool {
    until_async("an answer of the store", async || check(opened, key).await).await
}

/// A sentinel that was cut off together with its primary: it doesn't know the failover, and no other sentinel
/// knows it. The old primary keeps deciding.
struct CutOff {
    primary: Server,
    sentinel: Server,
}

impl CutOff {
    fn start(binary: &ServerBinary, name: &str) -> Self {
        let primary = Server::start_with(binary, &[]).unwrap();
        let sentinel = Server::start_with(binary, &["--sentinel"]).unwrap();
        let port = primary.port().to_string();
        sentinel.cli(&["SENTINEL", "MONITOR", name, "127.0.0.1", &port, "2"]).unwrap();
        Self { primary, sentinel }
    }

    /// Returns the number of keys of the old primary.
    fn keys(&self) -> String {
        self.primary.cli(&["DBSIZE"]).unwrap()
    }
}

/// Starts sentinels that have seen a failover, each behind a proxy, and one that was cut off before. The URL
/// names that one first.
fn split(binary: &ServerBinary) -> (CutOff, Sentinels, Vec<Proxy>, String) {
    let sentinels = Sentinels::builder(binary).start().unwrap();
    sentinels.fail_over().unwrap();
    let cut_off = CutOff::start(binary, sentinels.name());
    let proxies: Vec<_> =
        sentinels.sentinels().iter().map(|it| Proxy::start(it.port()).unwrap()).collect();
    let ports = std::iter::once(cut_off.sentinel.port()).chain(proxies.iter().map(Proxy::port));
    let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name());
    (cut_off, sentinels, proxies, url)
}

/// Before, the first sentinel's answer was believed, so the old primary decided permanently.
#[tokio::test]
async fn a_sentinel_that_was_cut_off_is_outvoted_by_one_that_saw_the_failover() {
    for binary in servers::available().unwrap() {
        let (cut_off, sentinels, proxies, url) = split(&binary);
        let store = builder(&url).build();
        let opened = open(&store, "fixed_window 1/h");
        assert!(check_until_answered(&opened, "key").await);
        assert!(!check_until_answered(&opened, "key").await);
        assert_eq!(cut_off.keys(), "0");
        // One that has seen the failover is enough, and one that hasn't doesn't undo it.
        for proxy in &proxies[1..] {
            proxy.refuse();
            proxy.cut(Cut::Reset);
        }
        let other = builder(&url).build();
        assert!(
            check_until_answered(&open(&other, "fixed_window 1/h"), "key").await,
            "of a prefix of its own"
        );
        assert_eq!(cut_off.keys(), "0");
        proxies[0].refuse();
        proxies[0].cut(Cut::Reset);
        let primary = sentinels.server(sentinels.primary());
        primary.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
        assert!(!check_until_answered(&opened, "key").await, "where it was");
        assert_eq!(cut_off.keys(), "0");
    }
}

/// A client that only reaches this sentinel believes it, and leaves the old primary when it reaches another
/// sentinel.
#[tokio::test]
async fn a_primary_that_was_cut_off_is_left_once_a_sentinel_is_reached_that_knows_better() {
    for binary in servers::available().unwrap() {
        let (cut_off, _sentinels, proxies, url) = split(&binary);
        proxies.iter().for_each(Proxy::refuse);
        let store = builder(&url).build();
        let opened = open(&store, "fixed_window 1/h");
        assert!(check_until_answered(&opened, "key").await);
        assert!(!check_until_answered(&opened, "key").await);
        assert_ne!(cut_off.keys(), "0");
        proxies[2].accept().unwrap();
        until_async("a decision of the new primary", async || match check(&opened, "key").await {
            Ok(true) => Ok(()),
            other => Err(other),
        })
        .await;
    }
}

/// The other sentinels may be unreachable without an error.
#[tokio::test]
async fn sentinels_that_say_nothing_hold_up_a_connection_for_less_than_it_may_take() {
    for binary in servers::available().unwrap() {
        let (cut_off, _sentinels, proxies, url) = split(&binary);
        for proxy in &proxies[1..] {
            proxy.set(Direction::Replies, Fault::Hold);
        }
        let store = builder(&url).build();
        assert!(check(&open(&store, "fixed_window 1/h"), "key").await.unwrap());
        assert_eq!(cut_off.keys(), "0");
    }
}

fn url(cluster: &Cluster) -> String {
    let hosts = cluster.urls();
    let hosts: Vec<_> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

/// Returns a subject whose keys a node has.
fn subject_on(cluster: &Cluster, node: usize) -> String {
    let is_there =
        |subject: &String| cluster.primary_of(cluster.slot_of(subject.as_bytes()).unwrap()) == node;
    (0..).map(|number| format!("subject-{number}")).find(is_there).unwrap()
}

/// Counts the admissions of a subject, and measures their duration.
struct Admissions {
    ends: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<(u32, Duration)>,
}

impl Admissions {
    fn count(opened: RedisLimit, subject: &str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (until, subject, since) = (Arc::clone(&ends), subject.to_owned(), Instant::now());
        let task = tokio::spawn(async move {
            let (mut count, mut last) = (0, Duration::ZERO);
            while !until.load(Ordering::Relaxed) {
                if check(&opened, &subject).await.unwrap_or(false) {
                    (count, last) = (count + 1, since.elapsed());
                }
            }
            (count, last)
        });
        Self { ends, task }
    }

    async fn end(self) -> (u32, Duration) {
        self.ends.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// The old primary continues with its old counts, until it reaches the others. A client of the new primary
/// never calls it again; other clients are redirected by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_halted_while_its_replica_took_over_decides_until_it_hears_of_it() {
    for binary in servers::available().unwrap() {
        let mut cluster = Cluster::builder(&binary).start().unwrap();
        let prefix: KeyPrefix = servers::fresh_prefix("cluster").parse().unwrap();
        let of_prefix = || {
            let builder = builder(&url(&cluster)).prefix(prefix.clone());
            let store = builder.deadline(Duration::from_millis(200)).build();
            open(&store, "fixed_window 100/h")
        };
        let (busy, idle) = (of_prefix(), of_prefix());
        let subject = subject_on(&cluster, 0);
        let slot = cluster.slot_of(subject.as_bytes()).unwrap();
        for opened in [&busy, &idle] {
            until_async("a decision", async || check(opened, &subject).await).await;
        }
        let halted = tokio::task::spawn_blocking(move || {
            let (old, _) = cluster.halt_primary_of(slot).unwrap();
            (cluster, old)
        });
        let (mut cluster, old) = halted.await.unwrap();
        until_async("the limit, at the new one", async || match check(&busy, &subject).await {
            Ok(false) => Ok(()),
            other => Err(other),
        })
        .await;
        cluster.server_mut(old).resume().unwrap();
        let counts = [busy, idle].map(|opened| Admissions::count(opened, &subject));
        let settled = tokio::task::spawn_blocking(move || {
            cluster.settle();
            cluster
        });
        let cluster = settled.await.unwrap();
        let [busy, idle] = counts;
        assert_eq!(busy.end().await.0, 0, "the old one was asked by who knew the new one");
        let (count, last) = idle.end().await;
        println!("{binary}: a primary that was cut off admitted {count}, the last after {last:?}");
        assert!(count < 100, "never more than what was left of it");
        assert_ne!(cluster.primary_of(slot), old);
    }
}

/// All others are stopped, so it sees no majority, as on the smaller side of a split network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_sees_no_majority_stops_deciding_and_begins_again() {
    for binary in servers::available().unwrap() {
        let mut cluster = Cluster::builder(&binary).replicas(0).start().unwrap();
        let store = builder(&url(&cluster)).deadline(Duration::from_millis(200)).build();
        let opened = open(&store, "token_bucket 1000000/s");
        let subject = subject_on(&cluster, 1);
        // The cluster has just started.
        let allowed = until_async("a decision", async || check(&opened, &subject).await).await;
        assert!(allowed);
        let split = Instant::now();
        for number in [0, 2] {
            cluster.server_mut(number).pause().unwrap();
        }
        let error = until_async("an error", async || match check(&opened, &subject).await {
            Err(error) => Ok(error),
            Ok(allowed) => Err(allowed),
        })
        .await;
        println!("{binary}: a primary in the minority decided for {:?}", split.elapsed());
        assert!(error.to_string().contains("nothing was charged"), "{error}");
        for _ in 0..5 {
            check(&opened, &subject).await.unwrap_err();
        }
        for number in [0, 2] {
            cluster.server_mut(number).resume().unwrap();
        }
        until_async("decisions again", async || check(&opened, &subject).await).await;
    }
}
