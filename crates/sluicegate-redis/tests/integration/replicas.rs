//! Limits whose decisions replicas must acknowledge. An acknowledged decision survives a failover to a
//! replica that has it. Any other decision is an error that says so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::{
    Acknowledgement, Decision, Error, Limit, OpenOptions, OpenedLimit as _, Operation, Request,
    Span, Store as _, StoreError, StoreErrorKind,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::proxy::{Direction, Fault, Proxy};
use sluicegate_testkit::servers::{self, Cluster, Sentinels, Server, ServerBinary};
use sluicegate_testkit::wait::{until, until_async};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rights::{documented, set_user};

const FULL: u64 = 100_000;

fn store(url: &str, prefix: &str) -> RedisStore {
    let builder = RedisStore::builder(url).unwrap().prefix(prefix.parse().unwrap());
    builder.deadline(Duration::from_secs(20)).build()
}

fn open(store: &RedisStore, name: &str, most: u64, by: Option<Acknowledgement>) -> Arc<RedisLimit> {
    let mut options = OpenOptions::default();
    options.acknowledged = by;
    Arc::new(
        store.open(Limit::new(name, [format!("token_bucket 1/d burst {most}")]).unwrap(), options),
    )
}

fn one(within_ms: u64) -> Acknowledgement {
    Acknowledgement { replicas: NonZeroU8::MIN, within: Duration::from_millis(within_ms) }
}

async fn ask(opened: &RedisLimit, operation: Operation<'_>) -> Result<Decision, StoreError> {
    match opened.ask(Request::new(operation, b"alice")).wait().await {
        Ok(decision) => Ok(decision),
        Err(Error::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

async fn check(opened: &RedisLimit) -> Result<Decision, StoreError> {
    ask(opened, Operation::Check).await
}

async fn left(opened: &RedisLimit) -> u64 {
    ask(opened, Operation::Peek).await.unwrap().remaining().unwrap()
}

fn start(binary: &ServerBinary, options: &[&str]) -> Server {
    Server::builder(binary).options(options).start().unwrap()
}

/// Starts a replica of the server at the port, which is `primary` or a proxy to it.
fn replica_of(primary: &Server, port: u16) -> Server {
    let replica = start(primary.binary(), &["--replicaof", "127.0.0.1", &port.to_string()]);
    until("the replica to keep up", || {
        let info = primary.cli(&["INFO", "replication"]).unwrap();
        if info.contains("state=online") { Ok(()) } else { Err(info) }
    });
    replica
}

/// Returns a number from a line of INFO.
fn number(server: &Server, section: &str, name: &str, end: char) -> u64 {
    let info = server.cli(&["INFO", section]).unwrap();
    let number = info.split_once(name).and_then(|(_, rest)| rest.split(end).next()?.parse().ok());
    number.unwrap_or(0)
}

#[tokio::test]
async fn what_no_replica_acknowledges_is_a_failure_within_the_deadline() {
    for binary in servers::available().unwrap() {
        let primary = start(&binary, &[]);
        let mut replica = replica_of(&primary, primary.port());
        let store = store(&primary.url(), &servers::fresh_prefix("replicas"));
        let opened = open(&store, "test", 3, Some(one(200)));
        let patient = open(&store, "test", 3, Some(one(10_000)));
        assert!(check(&patient).await.unwrap().is_allowed());

        replica.pause().unwrap();
        for left_after in [1, 0] {
            let start = Instant::now();
            let error = check(&opened).await.unwrap_err();
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
            assert_eq!(error.kind(), StoreErrorKind::Unacknowledged, "{error}");
            for part in [
                &format!("the store at 127.0.0.1:{} decided", primary.port()),
                "0 of its replicas acknowledged within 200ms",
                "requires 1",
                "INFO replication",
                "it may have charged, and a failover may lose that",
            ] {
                assert!(error.to_string().contains(part), "no `{part}` in: {error}");
            }
            assert_eq!(left(&opened).await, left_after, "the primary has charged");
        }
        // A lost denial admits no request.
        assert!(check(&opened).await.unwrap().is_denied());
        assert!(ask(&opened, Operation::Refund).await.unwrap().is_allowed());
        assert!(ask(&opened, Operation::Reset).await.is_ok());
        for operation in
            [Operation::Take, Operation::Charge, Operation::Reserve { within: Span::SECOND }]
        {
            let error = ask(&opened, operation).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unacknowledged, "{operation:?}: {error}");
        }

        replica.resume().unwrap();
        assert!(ask(&opened, Operation::Reset).await.is_ok());
        until_async("the replica to keep up again", async || {
            check(&opened).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
}

#[tokio::test]
async fn other_limits_do_not_wait_for_replicas_and_more_of_them_are_waited_for_elsewhere() {
    for binary in servers::available().unwrap() {
        let primary = start(&binary, &[]);
        let mut replica = replica_of(&primary, primary.port());
        let store = store(&primary.url(), &servers::fresh_prefix("others"));
        let [waits, plain] = [Some(one(9_000)), None].map(|by| open(&store, "test", FULL, by));
        let two = Acknowledgement { replicas: NonZeroU8::new(2).unwrap(), ..one(1) };
        let two = open(&store, "test", FULL, Some(two));
        assert!(check(&waits).await.unwrap().is_allowed());
        assert!(check(&two).await.unwrap_err().to_string().contains("1 of its replicas"));

        replica.pause().unwrap();
        let waiting = tokio::spawn({
            let waits = Arc::clone(&waits);
            async move { check(&waits).await }
        });
        let blocked = || number(&primary, "clients", "blocked_clients:", '\r');
        until_async("the call to wait", async || match blocked() {
            1 => Ok(()),
            others => Err(others),
        })
        .await;
        for _ in 0..100 {
            assert!(check(&plain).await.unwrap().is_allowed());
        }
        assert!(check(&two).await.is_err());
        assert_eq!(blocked(), 1);
        replica.resume().unwrap();
        assert!(waiting.await.unwrap().unwrap().is_allowed());
    }
}

/// The replica is 20 ms behind: separate waits would take a minute.
#[tokio::test]
async fn what_is_asked_while_replicas_are_waited_for_waits_for_them_together() {
    for binary in servers::available().unwrap() {
        let primary = start(&binary, &[]);
        let proxy = Proxy::start(primary.port()).unwrap();
        let _replica = replica_of(&primary, proxy.port());
        proxy.set(Direction::Replies, Fault::Delay(Duration::from_millis(20)));
        let store = store(&primary.url(), &servers::fresh_prefix("together"));
        let opened = open(&store, "test", FULL, Some(one(9_000)));
        let mut calls = JoinSet::new();
        for subject in 0..3_000_u32 {
            let opened = Arc::clone(&opened);
            calls.spawn(async move {
                let subject = subject.to_string();
                opened.ask(Request::check(subject.as_bytes())).wait().await.unwrap()
            });
        }
        assert!(calls.join_all().await.iter().all(Decision::is_allowed));
        let waits = number(&primary, "commandstats", "cmdstat_wait:calls=", ',');
        // The handshake has one.
        assert!((2..=60).contains(&waits), "{waits}");
    }
}

/// Sends requests to a primary that crashes meanwhile. Returns how often they were allowed, and how many
/// units its replica has, which is 50 ms behind.
async fn allowed_and_kept(binary: &ServerBinary, by: Option<Acknowledgement>) -> (u64, u64) {
    let mut primary = start(binary, &[]);
    let proxy = Proxy::start(primary.port()).unwrap();
    let replica = replica_of(&primary, proxy.port());
    proxy.set(Direction::Replies, Fault::Delay(Duration::from_millis(50)));
    let prefix = servers::fresh_prefix("killed");
    let opened = open(&store(&primary.url(), &prefix), "test", FULL, by);
    let allowed = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let (opened, allowed) = (Arc::clone(&opened), Arc::clone(&allowed));
        tasks.spawn(async move {
            while check(&opened).await.is_ok() {
                allowed.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    until_async("enough decisions", async || match allowed.load(Ordering::SeqCst) {
        count if count >= 300 => Ok(()),
        count => Err(count),
    })
    .await;
    primary.kill().unwrap();
    // Data in transit never arrives.
    drop(proxy);
    tasks.join_all().await;
    replica.cli(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let promoted = open(&store(&replica.url(), &prefix), "test", FULL, None);
    (allowed.load(Ordering::SeqCst), FULL - left(&promoted).await)
}

#[tokio::test]
async fn a_promoted_replica_has_every_unit_that_was_acknowledged() {
    for binary in servers::available().unwrap() {
        let (allowed, kept) = allowed_and_kept(&binary, Some(one(9_000))).await;
        assert!(allowed <= kept, "{allowed} were allowed, and it knows of {kept}");
        // Without acknowledgement, the admissions of the last 50 ms are lost.
        let (allowed, kept) = allowed_and_kept(&binary, None).await;
        assert!(allowed > kept, "{allowed} were allowed, and it knows of {kept}");
    }
}

#[tokio::test]
async fn it_goes_on_behind_sentinels_with_the_replica_that_they_promote() {
    let mut sentinels = Sentinels::start().unwrap();
    let hosts: Vec<_> =
        sentinels.sentinels().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    let url = format!("redis+sentinel://{}/{}", hosts.join(","), sentinels.name());
    let store = store(&url, &servers::fresh_prefix("sentinels"));
    let opened = open(&store, "test", FULL, Some(one(2_000)));
    for _ in 0..50 {
        assert!(check(&opened).await.unwrap().is_allowed());
    }
    sentinels.kill_primary().unwrap();
    // The new primary has no replica.
    let error = until_async("the new primary's decision", async || {
        match check(&opened).await.unwrap_err() {
            error if error.kind() == StoreErrorKind::Unacknowledged => Ok(error),
            error => Err(error),
        }
    })
    .await;
    assert!(error.to_string().contains("0 of its replicas"), "{error}");
    assert!(left(&opened).await < FULL - 50);
}

#[tokio::test]
async fn each_node_of_a_cluster_waits_for_replicas_of_its_own() {
    let mut cluster = Cluster::builder(&servers::available().unwrap()[0]).start().unwrap();
    let url = cluster.urls()[0].replace("redis://", "redis+cluster://");
    let store = store(&url, &servers::fresh_prefix("nodes"));
    let opened = open(&store, "test", FULL, Some(one(1_000)));
    let subjects: Vec<String> = (0..3)
        .map(|node| {
            let is_there = |subject: &String| {
                cluster.primary_of(cluster.slot_of(subject.as_bytes()).unwrap()) == node
            };
            (0..).map(|number| format!("subject-{number}")).find(is_there).unwrap()
        })
        .collect();
    let check = async |subject: &str| opened.ask(Request::check(subject.as_bytes())).wait().await;
    for subject in &subjects {
        assert!(check(subject).await.unwrap().is_allowed());
    }
    for replica in cluster.replicas_of(0).unwrap() {
        cluster.server_mut(replica).pause().unwrap();
    }
    let error = check(&subjects[0]).await.unwrap_err();
    assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Unacknowledged, "{error}");
    assert!(check(&subjects[1]).await.unwrap().is_allowed());

    // If only one of two slots has acknowledged, no units are granted, and they are given back.
    let part = |name: &str| Limit::new(name, [format!("token_bucket 1/d burst {FULL}")]).unwrap();
    let options = OpenOptions::default().acknowledged(one(1_000));
    let both = store.open(Limit::together([part("first"), part("second")]).unwrap(), options);
    let also = [subjects[1].as_bytes()];
    let request = Request::check(subjects[0].as_bytes()).also(&also);
    let error = both.ask(request).wait().await.unwrap_err();
    assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Unacknowledged, "{error}");
    let after = both.ask(request.with_operation(Operation::Peek)).wait().await.unwrap();
    assert_eq!(after.remaining(), Some(FULL), "{after:?}");
    for replica in cluster.replicas_of(0).unwrap() {
        cluster.server_mut(replica).resume().unwrap();
    }
}

#[tokio::test]
async fn a_user_needs_one_right_more_and_without_it_nothing_is_charged() {
    for binary in servers::available().unwrap() {
        let primary = start(&binary, &[]);
        let _replica = replica_of(&primary, primary.port());
        let prefix = servers::fresh_prefix("right");
        let rules = documented(&prefix);
        assert!(rules.contains(&"+wait".to_owned()), "{rules:?}");
        let without: Vec<_> = rules.iter().filter(|rule| *rule != "+wait").cloned().collect();
        set_user(&primary, "with", &rules);
        set_user(&primary, "without", &without);
        let of = |user: &str| {
            store(&format!("redis://{user}:pw@127.0.0.1:{}/1", primary.port()), &prefix)
        };
        let opened = open(&of("without"), "test", FULL, Some(one(9_000)));
        let error = check(&opened).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unacknowledged, "{error}");
        assert!(error.to_string().contains("grant it `+wait`"), "{error}");
        assert_eq!(left(&opened).await, FULL);
        let opened = open(&of("with"), "test", FULL, Some(one(9_000)));
        assert!(check(&opened).await.unwrap().is_allowed());
    }
}
