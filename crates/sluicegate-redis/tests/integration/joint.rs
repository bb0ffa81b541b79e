//! Decisions about subjects in several slots of a cluster of real servers: all or nothing, with contention,
//! crashes and moving slots.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_conformance::suite;
use sluicegate_core::{
    Costs, Decision, Error, Hold, HoldId, Limit, OnExpiry, OpenOptions, OpenedLimit as _,
    Operation, Request, RequestError, RequestErrorKind, Span, Store as _, TimeSource, Timestamp,
};
use sluicegate_redis::{RedisLimit, RedisStore};
use sluicegate_testkit::servers::{self, Cluster, ClusterBuilder, ServerBinary};
use sluicegate_testkit::wait::until_async;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rights;

fn each_cluster(set_up: impl Fn(ClusterBuilder) -> ClusterBuilder) -> Vec<Cluster> {
    let start =
        |binary: &ServerBinary| set_up(Cluster::builder(binary).replicas(0)).start().unwrap();
    servers::available().unwrap().iter().map(start).collect()
}

fn store(cluster: &Cluster, deadline_ms: u64) -> RedisStore {
    let hosts = cluster.urls();
    let hosts: Vec<_> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
    let prefix = servers::fresh_prefix("joint").parse().unwrap();
    let builder = RedisStore::builder(&format!("redis+cluster://{}", hosts.join(","))).unwrap();
    builder.prefix(prefix).deadline(Duration::from_millis(deadline_ms)).build()
}

fn limit(name: &str, specs: &[&str]) -> Limit {
    Limit::new(name, specs).unwrap()
}

fn open(store: &RedisStore, limits: &[&Limit]) -> RedisLimit {
    let limits = limits.iter().map(|limit| (*limit).clone());
    store.open(Limit::together(limits).unwrap(), OpenOptions::default())
}

async fn ask(opened: &RedisLimit, operation: Operation<'_>, subjects: &[&str]) -> Decision {
    let subjects: Vec<&[u8]> = subjects.iter().map(|subject| subject.as_bytes()).collect();
    let request = Request::new(operation, subjects[0]).also(&subjects[1..]);
    opened.ask(request).wait().await.unwrap()
}

async fn remaining(opened: &RedisLimit, subject: &str) -> Option<u64> {
    ask(opened, Operation::Peek, &[subject]).await.remaining()
}

#[test]
fn limits_in_many_slots_answer_as_if_they_were_decided_together() {
    suite::block_on(async {
        for cluster in each_cluster(|builder| builder) {
            // A store remembers the slots that it should ask in order, and a new store doesn't.
            for _ in 0..3 {
                let store = store(&cluster, 5_000);
                suite::many_limits_in_many_places_answer_like_the_kernels(&store).await;
            }
            let store = store(&cluster, 5_000);
            suite::parts_share_their_states_with_the_limits_they_are(&store).await;
        }
    });
}

#[tokio::test]
async fn what_would_make_its_caller_wait_is_refused_where_no_node_has_all_subjects() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 5_000);
        let (one, two) =
            (limit("one", &["gcra 1/h burst 9"]), limit("two", &["shaper 9/s queue 9"]));
        let three = limit("three", &["gcra 1/h burst 9"]);
        let reserve = Operation::Reserve { within: Span::SECOND };
        for (limits, operation, why) in [
            ([&one, &two], Operation::Check, "a shaper"),
            ([&one, &two], Operation::Peek, "a shaper"),
            ([&one, &two], Operation::Take, "a shaper"),
            ([&one, &three], reserve, "a reservation"),
        ] {
            let opened = open(&store, &limits);
            let apart: &[&[u8]] = &[b"bar"];
            let request = Request::new(operation, b"foo").also(apart);
            let error = opened.ask(request).wait().await.unwrap_err();
            let Error::Request(error) = error else { panic!("{error}") };
            assert_eq!(error.kind(), RequestErrorKind::Unsupported, "{error}");
            for part in ["different slots", why] {
                assert!(error.to_string().contains(part), "no `{part}` in: {error}");
            }
            let same: &[&[u8]] = &[b"foo"];
            let request = Request::new(operation, b"foo").also(same);
            assert!(opened.ask(request).wait().await.unwrap().is_allowed());
        }
        let opened = open(&store, &[&one, &two]);
        assert_eq!(ask(&opened, Operation::Reset, &["foo", "bar"]).await.forgotten(), Some(true));
    }
}

#[tokio::test]
async fn what_a_state_can_not_hold_is_an_error_only_where_nothing_refuses() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 5_000);
        let smooth = limit("smooth", &["smooth 1/4s burst 9007199250s start empty"]);
        let closed = limit("closed", &["fixed_window 0/h"]);
        let opened = open(&store, &[&smooth, &closed]);
        let also: &[&[u8]] = &[b"bar"];
        let check = Request::check(b"foo").also(also).costs(Costs::Each(&[2, 1]));
        // The first request asks all slots concurrently, the others ask in the order of slots.
        for _ in 0..3 {
            let denied = opened.ask(check).wait().await.unwrap();
            assert_eq!((denied.is_denied(), denied.binding_index()), (true, Some(1)));
        }
        let day = limit("day", &["fixed_window 9/d"]);
        let error = open(&store, &[&smooth, &day]).ask(check).wait().await.unwrap_err();
        let kind = error.as_request().map(RequestError::kind);
        assert_eq!(kind, Some(RequestErrorKind::Overflow));
        let left = ask(&open(&store, &[&day]), Operation::Peek, &["bar"]).await.remaining();
        assert_eq!(left, Some(9), "what the other gave went back");
    }
}

#[tokio::test]
async fn a_pause_in_one_slot_denies_all_and_the_others_give_back() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 5_000);
        let (one, two) =
            (limit("one", &["fixed_window 9/h"]), limit("two", &["gcra 9/h burst 9 as b"]));
        let pause = |policy| Operation::Pause { lasts: Span::HOUR, policy };
        let opened = open(&store, &[&one, &two]);
        for policy in [None, Some(0)] {
            assert!(ask(&open(&store, &[&two]), pause(policy), &["bar"]).await.is_allowed());
            for operation in [Operation::Check, Operation::Peek, Operation::Take] {
                let denied = ask(&opened, operation, &["foo", "bar"]).await;
                let paused = denied.pause().map(|pause| (pause.part, pause.policy));
                let expected = Some((1, policy.map(|_| 1)));
                assert_eq!((denied.is_denied(), paused), (true, expected), "{operation:?}");
                assert_eq!(denied.policies().len(), 0);
            }
            assert_eq!(remaining(&open(&store, &[&one]), "foo").await, Some(9));
            let resume = Operation::Resume { policy: None };
            assert_eq!(ask(&open(&store, &[&two]), resume, &["bar"]).await.forgotten(), Some(true));
            assert!(ask(&opened, Operation::Peek, &["foo", "bar"]).await.is_allowed());
        }
        let together = Request::new(pause(None), b"foo");
        let also: &[&[u8]] = &[b"bar"];
        let error = opened.ask(together.also(also)).wait().await.unwrap_err();
        let kind = error.as_request().map(RequestError::kind);
        assert_eq!(kind, Some(RequestErrorKind::Unsupported), "{error}");
    }
}

#[tokio::test]
async fn a_denial_leaves_every_subject_as_it_was() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 5_000);
        let specs = ["gcra 1/h burst 5", "sliding_log 9/h", "smooth 1/h burst 3h start full"];
        let (user, tenant) = (limit("user", &specs), limit("tenant", &["fixed_window 1/h"]));
        let [both, alone] = [open(&store, &[&user, &tenant]), open(&store, &[&user])];
        assert!(ask(&both, Operation::Check, &["foo", "bar"]).await.is_allowed());
        // The first request asks all slots concurrently, the others ask in the order of slots.
        for _ in 0..3 {
            let denied = ask(&both, Operation::Check, &["foo", "bar"]).await;
            assert_eq!((denied.is_denied(), denied.binding_index()), (true, Some(3)));
            assert_eq!(denied.limit(), Some(both.limit()));
            let left: Vec<_> = denied.policies().map(|policy| policy.remaining()).collect();
            assert_eq!(left, [Some(4), Some(8), None, Some(0)]);
            assert_eq!(remaining(&alone, "foo").await, Some(4));
        }
    }
}

/// A shadow policy and one that charges denied requests are charged for a denial by another slot.
#[tokio::test]
async fn a_denial_elsewhere_costs_what_it_costs_together() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 5_000);
        let policies = [
            "gcra 1/h burst 9 as a",
            "gcra 1/h burst 9 shadow as b",
            "gcra 1/h burst 9 charge_denied as c",
            "fixed_window 2/h count_denied as d",
        ];
        let (user, tenant) = (limit("user", &policies), limit("tenant", &["fixed_window 0/h"]));
        for (limits, subjects) in
            [([&user, &tenant], ["foo", "bar"]), ([&tenant, &user], ["foo2", "bar2"])]
        {
            let both = open(&store, &limits);
            for denials in 1..4 {
                let denied = ask(&both, Operation::Check, &subjects).await;
                assert!(denied.is_denied());
                let left = ["a", "b", "c"].map(|name| denied.outcome(name).unwrap().remaining());
                assert_eq!(left, [Some(9), Some(9 - denials), Some(9 - denials)]);
                assert_eq!(denied.outcome("d").unwrap().used(), Some(denials));
            }
        }
    }
}

#[tokio::test]
async fn as_much_is_taken_as_every_subject_has() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 5_000);
        let (user, tenant) =
            (limit("user", &["gcra 1/h burst 5"]), limit("tenant", &["fixed_window 3/h"]));
        let both = open(&store, &[&user, &tenant]);
        let subjects: &[&[u8]] = &[b"bar"];
        let costs = [9, 9];
        let request =
            Request::new(Operation::Take, b"foo").also(subjects).costs(Costs::Each(&costs));
        let taken = both.ask(request).wait().await.unwrap();
        assert_eq!((taken.granted(), taken.remaining()), (3, Some(0)));
        assert_eq!(remaining(&open(&store, &[&user]), "foo").await, Some(2));
        let denied = both.ask(request).wait().await.unwrap();
        assert_eq!((denied.is_denied(), denied.granted()), (true, 0));
        assert_eq!(remaining(&open(&store, &[&user]), "foo").await, Some(2));
    }
}

/// Contenders for two subjects of different slots, admitted by each cluster for some seconds. The auditor has
/// the times of every request and its admission, by one clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_contenders_are_admitted_exactly_and_do_not_undo_each_other() {
    const SECONDS: u64 = 4;
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 2_000);
        let [one, two] = ["one", "two"].map(|name| limit(name, &["token_bucket 10/s burst 5"]));
        let both = Arc::new(open(&store, &[&one, &two]));
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        for _ in 0..100 {
            let both = Arc::clone(&both);
            tasks.spawn(async move {
                let mut admitted = Vec::new();
                while start.elapsed() < Duration::from_secs(SECONDS) {
                    let asked = start.elapsed();
                    if ask(&both, Operation::Check, &["foo", "bar"]).await.is_allowed() {
                        admitted.push((asked, start.elapsed()));
                    }
                }
                admitted
            });
        }
        let mut trace = Vec::new();
        while let Some(admitted) = tasks.join_next().await {
            trace.extend(admitted.unwrap());
        }
        // Count the admissions that certainly happened between two instants.
        for (from, _) in &trace {
            for (_, to) in &trace {
                let within =
                    trace.iter().filter(|(asked, told)| asked >= from && told <= to).count();
                let most = 5.0 + 10.0 * to.saturating_sub(*from).as_secs_f64();
                assert!(
                    u32::try_from(within).map(f64::from).unwrap() <= most,
                    "{within} of {most}"
                );
            }
        }
        let (binary, count) = (cluster.node(0).server().binary().to_string(), trace.len());
        println!("{binary}: {count} admitted of {} in {SECONDS} s", 5 + 10 * SECONDS);
        assert!(count >= 20, "{count}");
        // Only admitted requests were charged, and both keys have the same charge.
        let alone = [open(&store, &[&one]), open(&store, &[&two])];
        until_async("both have all of it back", async || {
            let left = (remaining(&alone[0], "foo").await, remaining(&alone[1], "bar").await);
            if left == (Some(5), Some(5)) { Ok(()) } else { Err(left) }
        })
        .await;
    }
}

/// One node crashes: the units of the others are given back, and no caller waits longer than the deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_in_the_middle_costs_the_others_nothing() {
    for mut cluster in
        each_cluster(|builder| builder.options(&["--cluster-require-full-coverage", "no"]))
    {
        let store = store(&cluster, 300);
        let [here, there] = [subject_on(&cluster, 0), subject_on(&cluster, 1)];
        let [one, two] = ["one", "two"].map(|name| limit(name, &["fixed_window 1000/h"]));
        let (both, alone) = (Arc::new(open(&store, &[&one, &two])), open(&store, &[&one]));
        let subjects: &[&str] = &[&here, &there];
        assert!(ask(&both, Operation::Check, subjects).await.is_allowed());
        // A stopped node accepts calls and answers none, so it is unknown whether they were decided.
        cluster.server_mut(1).pause().unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..20 {
            let (both, here, there) = (Arc::clone(&both), here.clone(), there.clone());
            tasks.spawn(async move {
                let start = Instant::now();
                let also: &[&[u8]] = &[there.as_bytes()];
                let request = Request::check(here.as_bytes()).also(also);
                let error = both.ask(request).wait().await.unwrap_err();
                assert!(error.is_store_failure(), "{error}");
                start.elapsed()
            });
        }
        while let Some(took) = tasks.join_next().await {
            let took = took.unwrap();
            assert!(took < Duration::from_millis(600), "{took:?}");
        }
        until_async("given back", async || match remaining(&alone, &here).await {
            Some(999) => Ok(()),
            other => Err(other),
        })
        .await;
        cluster.server_mut(1).kill().unwrap();
        let also: &[&[u8]] = &[there.as_bytes()];
        let request = Request::check(here.as_bytes()).also(also);
        for _ in 0..5 {
            assert!(both.ask(request).wait().await.unwrap_err().is_store_failure());
        }
        until_async("given back", async || match remaining(&alone, &here).await {
            Some(999) => Ok(()),
            other => Err(other),
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_gives_up_in_the_middle_leaves_nothing_charged() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 2_000);
        let [one, two] = ["one", "two"].map(|name| limit(name, &["fixed_window 100000/h"]));
        let both = Arc::new(open(&store, &[&one, &two]));
        assert!(ask(&both, Operation::Check, &["foo", "bar"]).await.is_allowed());
        let (mut allowed, mut gone) = (1, 0);
        for micros in 0..400 {
            let (subjects, patience) = (["foo", "bar"], Duration::from_micros(3 * micros));
            let asked = ask(&both, Operation::Check, &subjects);
            let given_up = async {
                let start = Instant::now();
                // A timer's millisecond is longer than a decision.
                while start.elapsed() < patience {
                    tokio::task::yield_now().await;
                }
            };
            let asked = async {
                tokio::select! {
                    decision = asked => Some(decision),
                    () = given_up => None,
                }
            };
            match asked.await {
                Some(decision) => allowed += u64::from(decision.is_allowed()),
                None => gone += 1,
            }
        }
        println!("{allowed} were allowed, {gone} gave up");
        assert!(gone > 0);
        let alone = [open(&store, &[&one]), open(&store, &[&two])];
        until_async("given back", async || {
            let left = (remaining(&alone[0], "foo").await, remaining(&alone[1], "bar").await);
            if left == (Some(100_000 - allowed), Some(100_000 - allowed)) {
                Ok(())
            } else {
                Err((left, allowed))
            }
        })
        .await;
    }
}

/// A reset ends the records: units taken before it are not given back after it.
#[tokio::test]
async fn a_reset_between_taking_and_giving_back_is_the_end_of_it() {
    for mut cluster in
        each_cluster(|builder| builder.options(&["--cluster-require-full-coverage", "no"]))
    {
        let store = store(&cluster, 1_000);
        let [here, there] = [subject_on(&cluster, 0), subject_on(&cluster, 1)];
        let [one, two] = ["one", "two"].map(|name| limit(name, &["fixed_window 10/h aligned"]));
        let (both, alone) = (open(&store, &[&one, &two]), open(&store, &[&one]));
        let subjects: &[&str] = &[&here, &there];
        assert!(ask(&both, Operation::Check, subjects).await.is_allowed());
        cluster.server_mut(1).pause().unwrap();
        // One request takes units here and waits for the other node's answer.
        let mut asked = Box::pin(ask(&both, Operation::Check, subjects));
        until_async("taken here", async || {
            let waited = tokio::time::timeout(Duration::from_millis(1), &mut asked).await;
            assert!(waited.is_err());
            match remaining(&alone, &here).await {
                Some(8) => Ok(()),
                other => Err(other),
            }
        })
        .await;
        let _ = ask(&alone, Operation::Reset, &[&here]).await;
        let charged = ask(&alone, Operation::Check, &[&here]).await;
        assert_eq!(charged.remaining(), Some(9));
        drop(asked);
        cluster.server_mut(1).resume().unwrap();
        // By then, all due units of the other node have been given back.
        let other = open(&store, &[&two]);
        until_async("given back there", async || match remaining(&other, &there).await {
            Some(9) => Ok(()),
            other => Err(other),
        })
        .await;
        assert_eq!(remaining(&alone, &here).await, Some(9), "the other's unit stays charged");
    }
}

/// Records expire, so a late return gives nothing back. Keys expire too.
#[tokio::test]
async fn records_end_with_their_time() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 50);
        let [one, two] = ["one", "two"].map(|name| limit(name, &["fixed_window 10/h"]));
        let both = open(&store, &[&one, &two]);
        until_async("an answer in time", async || {
            let also: &[&[u8]] = &[b"bar"];
            both.ask(Request::check(b"foo").also(also)).wait().await.map(drop)
        })
        .await;
        // This is more than the inline records.
        let records = || {
            let keys = |node: usize| {
                let pattern =
                    format!("{}:*:hold#*", store.id().to_string().rsplit('`').nth(1).unwrap());
                cluster.node(node).server().cli(&["KEYS", &pattern]).unwrap().lines().count()
            };
            (0..3).map(keys).sum::<usize>()
        };
        until_async("records in keys of their own", async || {
            for _ in 0..20 {
                let also: &[&[u8]] = &[b"bar"];
                let _ = both.ask(Request::check(b"foo").also(also)).wait().await;
            }
            if records() > 0 { Ok(()) } else { Err("none") }
        })
        .await;
        until_async(
            "the records end",
            async || if records() == 0 { Ok(()) } else { Err(records()) },
        )
        .await;
    }
}

/// A record of a joint decision is used immediately or never: its end returns nothing.
#[tokio::test]
async fn what_several_slots_admitted_is_not_returned_when_its_records_end() {
    for cluster in each_cluster(|builder| builder) {
        let store = store(&cluster, 2_000);
        let [one, two] = ["one", "two"]
            .map(|name| limit(name, &["fixed_window 10/h"]).with_on_expiry(OnExpiry::Return));
        let run = servers::fresh_prefix("run");
        let options = OpenOptions::default().time(TimeSource::Injected { run });
        let open = |limit: Limit| store.open(limit, options.clone());
        let both = open(Limit::together([one.clone(), two.clone()]).unwrap());
        let alone = [(open(one), "foo"), (open(two), "bar")];
        let at = |second: u64| {
            Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000).unwrap()
        };
        let also: &[&[u8]] = &[b"bar"];
        let ask = |request| both.ask(request).wait();
        assert!(ask(Request::check(b"foo").also(also).at(at(0))).await.unwrap().is_allowed());
        let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Duration::from_secs(1) };
        let held = ask(Request::check(b"foo").also(also).hold(&hold).at(at(0))).await.unwrap();
        assert_eq!(held.hold(), Some(hold));
        for (opened, subject) in &alone {
            let peek = |second| Request::new(Operation::Peek, subject.as_bytes()).at(at(second));
            let left = async |second| opened.ask(peek(second)).wait().await.unwrap().remaining();
            assert_eq!(left(0).await, Some(8));
            // The held unit is returned.
            assert_eq!(left(60).await, Some(9));
        }
    }
}

/// Slots move while contenders send requests. Each subject is charged the admitted units, and no more than
/// its limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_neither_admit_too_much_nor_lose_units() {
    const MOST: u64 = 3_000;
    for cluster in each_cluster(|builder| builder) {
        let cluster = Arc::new(cluster);
        let store = store(&cluster, 5_000);
        let [one, two] =
            ["one", "two"].map(|name| limit(name, &[&format!("fixed_window {MOST}/h")]));
        let both = Arc::new(open(&store, &[&one, &two]));
        let ends = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let (both, ends) = (Arc::clone(&both), Arc::clone(&ends));
            tasks.spawn(async move {
                let mut allowed = 0;
                while !ends.load(Ordering::Relaxed) {
                    allowed +=
                        u64::from(ask(&both, Operation::Check, &["foo", "bar"]).await.is_allowed());
                }
                allowed
            });
        }
        for _ in 0..2 {
            for subject in ["foo", "bar"] {
                let cluster = Arc::clone(&cluster);
                let moving = tokio::task::spawn_blocking(move || {
                    let slot = cluster.slot_of(subject.as_bytes()).unwrap();
                    let migration = cluster.migration(slot, (cluster.primary_of(slot) + 1) % 3);
                    migration.open().unwrap();
                    while migration.move_keys(1).unwrap() > 0 {}
                    migration.assign().unwrap();
                    cluster.settle();
                });
                moving.await.unwrap();
            }
        }
        let alone = [open(&store, &[&one]), open(&store, &[&two])];
        until_async("the limit", async || match remaining(&alone[0], "foo").await {
            Some(0) => Ok(()),
            other => Err(other),
        })
        .await;
        ends.store(true, Ordering::Relaxed);
        let mut allowed = 0;
        while let Some(task) = tasks.join_next().await {
            allowed += task.unwrap();
        }
        while ask(&both, Operation::Check, &["foo", "bar"]).await.is_allowed() {
            allowed += 1;
        }
        assert_eq!(allowed, MOST);
        assert_eq!(remaining(&alone[1], "bar").await, Some(0));
    }
}

/// Returns a subject whose keys a node has.
fn subject_on(cluster: &Cluster, node: usize) -> String {
    let is_there =
        |subject: &String| cluster.primary_of(cluster.slot_of(subject.as_bytes()).unwrap()) == node;
    (0..).map(|number| format!("subject-{number}")).find(is_there).unwrap()
}

/// The rights in the documentation are enough, and a missing one is named.
#[tokio::test]
async fn a_user_with_the_documented_rights_decides_in_several_slots() {
    for cluster in each_cluster(|builder| builder) {
        let prefix = servers::fresh_prefix("joint");
        let hosts = cluster.urls().join(",").replace("redis://", "");
        let url = format!("redis+cluster://limiter:pw@{hosts}");
        let rules = rights::documented_for_clusters(&prefix);
        let set = |rules: &[String]| {
            (0..3).for_each(|node| rights::set_user(cluster.node(node).server(), "limiter", rules));
        };
        set(&rules);
        // Each new store asks all slots concurrently, until it has learned of contention.
        let new = || {
            let builder = RedisStore::builder(&url).unwrap().prefix(prefix.parse().unwrap());
            builder.deadline(Duration::from_secs(5)).build()
        };
        let [one, two] = ["one", "two"].map(|name| limit(name, &["gcra 1/h", "sliding_log 9/h"]));
        let both = open(&new(), &[&one, &two]);
        // Units are taken, denied, and given back.
        assert!(ask(&both, Operation::Check, &["foo", "bar"]).await.is_allowed());
        assert!(ask(&both, Operation::Check, &["foo2", "bar"]).await.is_denied());
        assert!(ask(&both, Operation::Reset, &["foo", "bar"]).await.is_allowed());
        // A denied request has taken units that can't be given back. The error says so too.
        for lacking in ["+get", "+set", "+del"] {
            set(&rules);
            let _ = ask(&both, Operation::Charge, &["foo3", "bar"]).await;
            set(&rules.iter().filter(|rule| *rule != lacking).cloned().collect::<Vec<_>>());
            let both = open(&new(), &[&one, &two]);
            let also: &[&[u8]] = &[b"bar"];
            let error = both.ask(Request::check(lacking.as_bytes()).also(also)).wait().await;
            let error = error.expect_err(lacking).to_string();
            assert!(error.split(['`', ' ']).any(|word| word == lacking), "{lacking}: {error}");
        }
        let lacking = "+cluster|slots";
        set(&rules.iter().filter(|rule| *rule != lacking).cloned().collect::<Vec<_>>());
        let error = new().ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("grant it `{lacking}`")), "{error}");
    }
}
