//! The store over clusters of real servers. Every call is decided once, by the node that has its keys, even
//! while slots move and nodes crash.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_conformance::suite;
use sluicegate_core::{
    Error, Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreError, StoreErrorKind,
    TimeSource, Timestamp,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::{self, Announced, Cluster, ClusterBuilder, Server, ServerBinary};
use sluicegate_testkit::wait::{until_async, until_seldom};
use tokio::task::JoinSet;

use crate::rights::{documented_for_clusters, set_user};

fn each_cluster(set_up: impl Fn(ClusterBuilder) -> ClusterBuilder) -> Vec<Cluster> {
    let start =
        |binary: &ServerBinary| set_up(Cluster::builder(binary).replicas(0)).start().unwrap();
    servers::available().unwrap().iter().map(start).collect()
}

fn url(cluster: &Cluster) -> String {
    let hosts = cluster.urls();
    let hosts: Vec<_> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

fn store(url: &str, deadline_ms: u64) -> RedisStore {
    let prefix = servers::fresh_prefix("cluster").parse().unwrap();
    let builder = RedisStore::builder(url).unwrap().prefix(prefix);
    builder.deadline(Duration::from_millis(deadline_ms)).build()
}

fn limit(name: &str, specs: &[&str]) -> Limit {
    Limit::new(name, specs).unwrap()
}

fn open(store: &RedisStore, specs: &[&str]) -> RedisLimit {
    store.open(limit("test", specs), OpenOptions::default())
}

async fn check(opened: &RedisLimit, key: &str) -> Result<bool, StoreError> {
    match opened.ask(Request::check(key.as_bytes())).wait().await {
        Ok(decision) => Ok(decision.is_allowed()),
        Err(Error::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Returns a subject whose keys a node has.
fn subject_on(cluster: &Cluster, node: usize) -> String {
    let is_there =
        |subject: &String| cluster.primary_of(cluster.slot_of(subject.as_bytes()).unwrap()) == node;
    (0..).map(|number| format!("subject-{number}")).find(is_there).unwrap()
}

/// Returns the number of errors of a kind in a server's answers.
fn errors(server: &Server, kind: &str) -> u64 {
    let stats = server.cli(&["INFO", "errorstats"]).unwrap();
    let of_kind =
        |line: &str| line.strip_prefix(&format!("errorstat_{kind}:count="))?.trim().parse().ok();
    stats.lines().find_map(of_kind).unwrap_or(0)
}

#[test]
fn a_cluster_is_held_to_all_that_a_store_is() {
    suite::block_on(async {
        for cluster in each_cluster(|builder| builder) {
            let store = store(&url(&cluster), 5_000);
            store.ping().await.unwrap();
            suite::the_case_file_passes(&store).await;
            suite::schedules_answer_like_the_model(&store).await;
            suite::every_kind_alone_answers_like_the_model(&store).await;
            suite::receipts_are_plain_values(&store).await;
            suite::slices_are_read_and_nothing_is_charged(&store).await;
            suite::keys_and_limits_are_apart(&store).await;
            suite::runs_are_apart(&store).await;
            suite::what_is_opened_twice_shares_its_states(&store).await;
            suite::who_comes_at_once_is_admitted_exactly(&store).await;
        }
    });
}

/// Before, a batch with keys of several slots would have been refused as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_many_slots_at_once_are_each_answered_for_their_own_key() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&url(&cluster), 5_000);
        let opened = Arc::new(open(&store, &["fixed_window 2/h"]));
        let mut asked = JoinSet::new();
        for call in 0..3_000 {
            let opened = Arc::clone(&opened);
            asked.spawn(async move {
                let subject = call % 1_000;
                (subject, check(&opened, &format!("subject {subject}")).await.unwrap())
            });
        }
        let mut allowed = vec![0; 1_000];
        while let Some(answer) = asked.join_next().await {
            let (subject, is_allowed) = answer.unwrap();
            allowed[subject] += u32::from(is_allowed);
        }
        assert!(allowed.iter().all(|count| *count == 2), "{allowed:?}");
        for number in 0..3 {
            let node = cluster.node(number).server();
            assert_eq!((errors(node, "MOVED"), errors(node, "CROSSSLOT")), (0, 0));
        }
    }
}

/// Tasks that check one subject until the load ends.
struct Load {
    ends: Arc<AtomicBool>,
    allowed: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Load {
    fn begin(opened: &Arc<RedisLimit>, subject: &str) -> Self {
        let (ends, allowed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let (opened, subject) = (Arc::clone(opened), subject.to_owned());
            let (ends, allowed) = (Arc::clone(&ends), Arc::clone(&allowed));
            tasks.spawn(async move {
                while !ends.load(Ordering::Relaxed) {
                    if check(&opened, &subject).await.unwrap() {
                        allowed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        Self { ends, allowed, tasks }
    }

    async fn end(mut self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task.unwrap();
        }
        self.allowed.load(Ordering::Relaxed)
    }
}

/// No call is lost or counted twice, and no answer goes to another subject's caller. Each subject has a
/// different limit, and is admitted exactly that often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_under_load_admit_exactly_their_limits() {
    for cluster in each_cluster(|builder| builder) {
        let cluster = Arc::new(cluster);
        let store = store(&url(&cluster), 5_000);
        let mut loads = Vec::new();
        for number in 0..4 {
            let (subject, most) = (format!("mover-{number}"), 400_u64 + 50 * number);
            let limit = limit(&format!("l{number}"), &[&format!("fixed_window {most}/h")]);
            let opened = Arc::new(store.open(limit, OpenOptions::default()));
            loads.push((Load::begin(&opened, &subject), opened, subject, most));
        }
        for (_, opened, subject, _) in &loads {
            let (cluster, opened, subject) =
                (Arc::clone(&cluster), Arc::clone(opened), subject.clone());
            let moving = tokio::task::spawn_blocking(move || {
                let node = || opened.nodes(&Request::check(subject.as_bytes()));
                let slot = cluster.slot_of(subject.as_bytes()).unwrap();
                let from = cluster.primary_of(slot);
                let to = (from + 1) % 3;
                let migration = cluster.migration(slot, to);
                let server = cluster.node(from).server();
                let (asked, before) = (errors(server, "ASK"), node());
                migration.open().unwrap();
                while migration.move_keys(10).unwrap() > 0 {}
                until_seldom("a call that is sent on", || match errors(server, "ASK") {
                    now if now > asked => Ok(()),
                    now => Err(now),
                });
                migration.assign().unwrap();
                until_seldom("calls go to the new node", || match node() {
                    now if now != before => Ok(()),
                    now => Err(now),
                });
            });
            moving.await.unwrap();
        }
        // A look at the cluster because of one slot may reveal the next move before a call is redirected. The
        // first move was unknown.
        let moved = (0..3).map(|number| errors(cluster.node(number).server(), "MOVED"));
        assert!(moved.sum::<u64>() > 0);
        for (load, opened, subject, most) in loads {
            until_async("the limit", async || match check(&opened, &subject).await.unwrap() {
                true => {
                    load.allowed.fetch_add(1, Ordering::Relaxed);
                    Err(())
                }
                false => Ok(()),
            })
            .await;
            assert_eq!(load.end().await, most, "{subject}");
        }
    }
}

/// Before, a node refused its call after the slot had moved, because its user lacked the right to `ASKING`.
#[tokio::test]
async fn a_user_with_the_documented_rights_decides_while_a_slot_moves() {
    for cluster in each_cluster(|builder| builder) {
        let prefix = servers::fresh_prefix("moving");
        let rules = documented_for_clusters(&prefix);
        (0..3).for_each(|node| set_user(cluster.node(node).server(), "limiter", &rules));
        let url = url(&cluster).replace("://", "://limiter:pw@");
        let store = RedisStore::builder(&url).unwrap().prefix(prefix.parse().unwrap());
        let opened = open(&store.deadline(Duration::from_secs(5)).build(), &["fixed_window 3/h"]);
        assert!(check(&opened, "alice").await.unwrap());
        let slot = cluster.slot_of(b"alice").unwrap();
        let migration = cluster.migration(slot, (cluster.primary_of(slot) + 1) % 3);
        migration.open().unwrap();
        while migration.move_keys(10).unwrap() > 0 {}
        assert!(check(&opened, "alice").await.unwrap(), "by the node that has the key by now");
        migration.assign().unwrap();
        assert!(check(&opened, "alice").await.unwrap());
        assert!(!check(&opened, "alice").await.unwrap(), "nothing was lost on the way");
    }
}

/// One of two keys has moved, so no node can decide until both have.
#[tokio::test]
async fn keys_that_are_torn_apart_while_they_move_are_waited_for_or_charge_nothing() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&url(&cluster), 200);
        let opened = open(&store, &["gcra 1/h burst 2", "sliding_log 2/h"]);
        assert!(check(&opened, "torn").await.unwrap());
        let slot = cluster.slot_of(b"torn").unwrap();
        let migration = cluster.migration(slot, (cluster.primary_of(slot) + 1) % 3);
        migration.open().unwrap();
        assert_eq!(migration.move_keys(1).unwrap(), 1);
        let error = check(&opened, "torn").await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        for why in ["are moving to another node", "within 200 ms", "nothing was charged"] {
            assert!(error.to_string().contains(why), "no `{why}` in: {error}");
        }
        while migration.move_keys(1).unwrap() > 0 {}
        assert!(check(&opened, "torn").await.unwrap(), "where both have gone");
        migration.assign().unwrap();
        assert!(!check(&opened, "torn").await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over_from_a_killed_primary_and_the_others_go_on() {
    for binary in servers::available().unwrap() {
        let mut cluster = Cluster::builder(&binary)
            .options(&["--cluster-require-full-coverage", "no"])
            .start()
            .unwrap();
        let store = store(&url(&cluster), 1_000);
        let opened = Arc::new(open(&store, &["fixed_window 100/h"]));
        let subjects: Vec<_> = (0..3).map(|node| subject_on(&cluster, node)).collect();
        for _ in 0..100 {
            assert!(check(&opened, &subjects[0]).await.unwrap());
        }
        let slot = cluster.slot_of(subjects[0].as_bytes()).unwrap();
        let nodes: Vec<_> =
            subjects.iter().map(|it| opened.nodes(&Request::check(it.as_bytes()))).collect();
        assert!(nodes[0].len() == 1 && nodes[0] != nodes[1] && nodes[1] != nodes[2], "{nodes:?}");
        let others = Load::begin(&opened, &subjects[1]);
        // Wait until the writes have arrived. Otherwise they would be lost with the primary.
        let primary = cluster.node(0).server();
        let offset = || {
            let info = primary.cli(&["INFO", "replication"]).unwrap();
            let field = |name: &str| {
                let rest = info.split(name).nth(1)?;
                rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
            };
            field("master_repl_offset:").zip(field("offset="))
        };
        until_seldom("the replica has it all", || match offset() {
            Some((written, arrived)) if arrived >= written => Ok(()),
            other => Err(other),
        });
        for replica in (0..3).flat_map(|primary| cluster.replicas_of(primary).unwrap()) {
            let asked = cluster.node(replica).server().cli(&["INFO", "commandstats"]).unwrap();
            assert!(!asked.contains("cmdstat_eval"), "a replica was asked: {asked}");
        }
        let killed = tokio::task::spawn_blocking(move || {
            cluster.kill_primary_of(slot).unwrap();
            cluster
        });
        let cluster = killed.await.unwrap();
        let denied =
            until_async("a decision of the replica", async || check(&opened, &subjects[0]).await)
                .await;
        assert!(!denied, "it counts on from where the primary was");
        assert_ne!(opened.nodes(&Request::check(subjects[0].as_bytes())), nodes[0]);
        assert!(others.allowed.load(Ordering::Relaxed) <= 100);
        assert_eq!(others.end().await, 100, "not one call failed on the other nodes");
        store.ping().await.unwrap();
        drop(cluster);
    }
}

#[tokio::test]
async fn a_node_that_is_gone_costs_its_own_slots_and_no_others() {
    for mut cluster in
        each_cluster(|builder| builder.options(&["--cluster-require-full-coverage", "no"]))
    {
        let store = store(&url(&cluster), 1_000);
        let opened = open(&store, &["fixed_window 100/h"]);
        let subjects: Vec<_> = (0..3).map(|node| subject_on(&cluster, node)).collect();
        for subject in &subjects {
            assert!(check(&opened, subject).await.unwrap());
        }
        let gone = cluster.node(1).server().port();
        cluster.server_mut(1).kill().unwrap();
        let error = check(&opened, &subjects[1]).await.unwrap_err();
        assert_ne!(error.kind(), StoreErrorKind::Timeout, "{error}");
        for _ in 0..5 {
            let error = check(&opened, &subjects[1]).await.unwrap_err();
            let names_it = error.to_string().contains(&format!("127.0.0.1:{gone} "));
            assert!(names_it || error.to_string().contains("no node that serves slot"), "{error}");
            assert!(error.to_string().contains("nothing was charged"), "{error}");
            assert!(check(&opened, &subjects[0]).await.unwrap_or(false));
        }
        let error = store.ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{gone} can't be reached")), "{error}");
        cluster.server_mut(1).restart().unwrap();
        until_async("its decision", async || check(&opened, &subjects[1]).await).await;
    }
}

#[tokio::test]
async fn slots_that_nobody_serves_are_named() {
    for server in start_each(&["--cluster-enabled", "yes"]) {
        let url = server.url().replace("redis://", "redis+cluster://");
        let store = store(&url, 300);
        let error = store.ping().await.unwrap_err().to_string();
        assert!(error.contains("a cluster without assigned slots"), "{error}");
        server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
        let opened = open(&store, &["fixed_window 2/h"]);
        let allowed = until_async("a cluster of one node", async || check(&opened, "bar").await);
        assert!(allowed.await);
        store.ping().await.unwrap();
        // `bar` is in slot 5061.
        server.cli(&["CLUSTER", "DELSLOTS", "5061", "16383"]).unwrap();
        server.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).unwrap();
        let error = check(&opened, "bar").await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("slot 5061"), "{error}");
        until_async("a ping that names them", async || match store.ping().await {
            Err(error) if error.to_string().contains("serves the slots 5061, 16383") => Ok(()),
            other => Err(other),
        })
        .await;
        // Other slots are still decided.
        until_async("another slot", async || check(&opened, "foo").await).await;
        server.cli(&["CLUSTER", "ADDSLOTS", "5061", "16383"]).unwrap();
        until_async("all slots again", async || check(&opened, "bar").await).await;
        assert!(!check(&opened, "bar").await.unwrap());
    }
}

#[tokio::test]
async fn addresses_are_those_that_nodes_announce() {
    let options = ["--cluster-preferred-endpoint-type", "hostname"];
    for cluster in each_cluster(|builder| builder.options(&options)) {
        let hostname = Some("localhost".to_owned());
        for number in 0..3 {
            let announced = Announced { hostname: hostname.clone(), ..Announced::default() };
            cluster.announce(number, &announced).unwrap();
        }
        let mut cluster = cluster;
        let store = store(&url(&cluster), 1_000);
        let opened = open(&store, &["fixed_window 1/h"]);
        let subject = subject_on(&cluster, 2);
        assert!(check(&opened, &subject).await.unwrap());
        let slot = cluster.slot_of(subject.as_bytes()).unwrap();
        cluster.migrate(slot..=slot, 0).unwrap();
        assert!(!check(&opened, &subject).await.unwrap(), "sent on by name");
        let port = cluster.node(0).server().port();
        cluster.server_mut(0).kill().unwrap();
        until_async("an error with the name", async || match check(&opened, &subject).await {
            Err(error) if error.to_string().contains(&format!("localhost:{port} ")) => Ok(()),
            other => Err(other),
        })
        .await;
    }
}

#[tokio::test]
async fn passwords_are_for_every_node_and_wrong_ones_are_named() {
    for cluster in each_cluster(|builder| builder.password("open sesame")) {
        let with = |account: &str| url(&cluster).replace("://", &format!("://{account}"));
        let right = store(&with(":open%20sesame@"), 5_000);
        right.ping().await.unwrap();
        for (account, why) in [("", "wants another user or password"), (":x@", "another password")]
        {
            let error = store(&with(account), 5_000).ping().await.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        // Only one node has a different password.
        let subject = subject_on(&cluster, 1);
        let opened = open(&right, &["fixed_window 5/h"]);
        cluster.node(1).server().cli(&["CONFIG", "SET", "requirepass", "another"]).unwrap();
        let other = store(&with(":open%20sesame@"), 5_000);
        let error = check(&open(&other, &["gcra 1/h"]), &subject).await.unwrap_err().to_string();
        assert!(error.contains("has another password for the default user"), "{error}");
        assert!(check(&opened, &subject_on_two(&cluster)).await.unwrap());
    }
}

/// Finds the subject without a call to the node whose password has changed.
fn subject_on_two(cluster: &Cluster) -> String {
    let is_there = |subject: &String| cluster.slot_of(subject.as_bytes()).unwrap() > 12_000;
    (0..).map(|number| format!("other-{number}")).find(is_there).unwrap()
}

#[tokio::test]
async fn a_server_of_its_own_where_a_cluster_was_meant_says_what_to_write() {
    for server in start_each(&[]) {
        let store = store(&server.url().replace("redis://", "redis+cluster://"), 5_000);
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        for why in ["no node of a cluster", &server.url(), "nothing was charged"] {
            assert!(error.to_string().contains(why), "no `{why}` in: {error}");
        }
    }
}

#[tokio::test]
async fn a_cluster_that_is_absent_lists_why_each_node_is() {
    let mut servers = start_each(&[]);
    let mut hosts = Vec::new();
    for server in &mut servers {
        hosts.push(format!("127.0.0.1:{}", server.port()));
        server.kill().unwrap();
    }
    let store = store(&format!("redis+cluster://{}", hosts.join(",")), 1_000);
    let error = store.ping().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    for host in hosts {
        assert!(error.to_string().contains(&format!("{host} can't be reached")), "{error}");
    }
}

#[tokio::test]
async fn the_keys_of_a_run_are_deleted_on_every_node() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&url(&cluster), 5_000);
        let run = TimeSource::Injected { run: "run".to_owned() };
        let limit = limit("test", &["gcra 1/h"]);
        let opened = store.open(limit.clone(), OpenOptions::default().time(run));
        for number in 0..100 {
            let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
            let subject = format!("subject {number}");
            let request = Request::check(subject.as_bytes()).at(at);
            assert!(opened.ask(request).wait().await.unwrap().is_allowed());
        }
        assert_eq!(store.delete_run(&limit, "run").await.unwrap(), 100);
        for number in 0..3 {
            assert_eq!(cluster.node(number).server().cli(&["DBSIZE"]).unwrap(), "0");
        }
    }
}

fn start_each(options: &[&str]) -> Vec<Server> {
    let start = |binary| Server::start_with(binary, options).unwrap();
    servers::available().unwrap().iter().map(start).collect()
}
