//! Permits of real servers: few calls, and notifications when a server is down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate::admin::{Answered, Observer, Settled};
use sluicegate::error::StoreErrorKind;
use sluicegate::store::Operation;
use sluicegate::{Limiter, RedisStore};
use sluicegate_testkit::servers::{Server, available, fresh_prefix};
use sluicegate_testkit::wait::until_async;
use tokio::time::Instant;

fn limiter(server: &Server, prefix: &str, spec: &str, deadline: Duration) -> Limiter<RedisStore> {
    let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix.parse().unwrap());
    let limit = sluicegate::Limit::new("export", [spec]).unwrap();
    Limiter::new(store.deadline(deadline).build(), limit)
}

const LONG: Duration = Duration::from_secs(5);

#[tokio::test]
async fn when_the_server_is_killed_the_permit_is_lost_when_its_hold_ends_and_not_later() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let spec = "concurrency 1 hold 1s";
        let limiter = limiter(&server, &fresh_prefix("permits"), spec, LONG);
        let asked = Instant::now();
        let permit = limiter.permit("acme").await.unwrap();
        assert!(permit.is_allowed());
        server.kill().unwrap();
        let killed = Instant::now();
        permit.lost().await;
        assert!(permit.is_lost());
        // It may have been renewed between the request and the end of the server. A busy machine takes part of a second
        // to notice; waiting for an answer would take five.
        let most = Duration::from_secs(3);
        assert!(killed.elapsed() <= most, "{:?} after the server", killed.elapsed());
        assert!(asked.elapsed() >= Duration::from_secs(1), "{:?}", asked.elapsed());
        let error = limiter.permit("acme").await.unwrap_err();
        assert_ne!(error.as_store().unwrap().kind(), StoreErrorKind::Unexpected);
    }
}

/// The number of renewed holds.
#[derive(Default)]
struct Renewals(AtomicU64);

impl Observer for Renewals {
    fn answered(&self, _: &Answered<'_>) {}

    fn settled(&self, settled: &Settled<'_>) {
        let is_renewed = settled.outcome.is_ok_and(sluicegate::Decision::is_allowed);
        if matches!(settled.operation, Operation::Renew { .. }) && is_renewed {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Returns the number of script calls to a server.
fn calls(server: &Server) -> u64 {
    let stats = server.cli(&["info", "commandstats"]).unwrap();
    let of_scripts = stats.lines().filter(|line| {
        ["cmdstat_evalsha:", "cmdstat_eval:", "cmdstat_fcall:"]
            .iter()
            .any(|name| line.starts_with(name))
    });
    let calls = of_scripts
        .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

#[tokio::test]
async fn a_thousand_permits_are_renewed_by_few_calls() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = RedisStore::builder(&server.url()).unwrap().deadline(LONG);
        let store = store.prefix(fresh_prefix("permits").parse().unwrap()).build();
        let limit = sluicegate::Limit::new("export", ["concurrency 1000 hold 8s"]).unwrap();
        let renewals = Arc::new(Renewals::default());
        let limiter = Limiter::builder(store, limit).observer(renewals.clone()).build();
        let tasks: Vec<_> = (0..1_000)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.permit("acme").await.unwrap() })
            })
            .collect();
        let mut permits = Vec::new();
        for task in tasks {
            permits.push(task.await.unwrap());
        }
        assert!(permits.iter().all(|permit| permit.is_allowed()));
        let before = calls(&server);
        until_async("every permit to be renewed twice", async || {
            let renewed = renewals.0.load(Ordering::SeqCst);
            if renewed >= 2_000 { Ok(()) } else { Err(renewed) }
        })
        .await;
        let (renewed, calls) = (renewals.0.load(Ordering::SeqCst), calls(&server) - before);
        assert!(calls <= 100, "{renewed} renewals in {calls} calls");
        assert!(permits.iter().all(|permit| !permit.is_lost()));
        drop(permits);
        until_async("all to be released", async || {
            let left = limiter.peek("acme").await.unwrap().remaining();
            if left == Some(1_000) { Ok(()) } else { Err(left) }
        })
        .await;
    }
}

/// If an answer is lost, no caller knows the units that it has taken.
#[tokio::test]
async fn a_request_that_is_given_up_before_its_answer_leaves_nothing_in_flight() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        let limiter = limiter(&server, &fresh_prefix("permits"), "concurrency 1 hold 10min", LONG);
        assert_eq!(limiter.peek("acme").await.unwrap().remaining(), Some(1));
        server.pause().unwrap();
        let asked = limiter.permit("acme");
        let given_up = tokio::time::timeout(Duration::from_millis(100), asked);
        assert!(given_up.await.is_err());
        server.resume().unwrap();
        until_async("it to be cancelled", async || {
            let left = limiter.peek("acme").await.unwrap().remaining();
            if left == Some(1) { Ok(()) } else { Err(left) }
        })
        .await;
        drop(limiter.permit("acme").await.unwrap());
    }
}

/// Two processes' points of view; tasks end by themselves, by a panic, or are aborted.
#[tokio::test]
async fn never_more_are_in_flight_than_there_are_permits_whoever_holds_them() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let prefix = fresh_prefix("permits");
        let limiters = [(); 2].map(|()| limiter(&server, &prefix, "concurrency 3 hold 30s", LONG));
        let [now, most, served] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for number in 0..60_u64 {
            let limiter = limiters[usize::from(number % 2 == 0)].clone();
            let (now, most, served) = (now.clone(), most.clone(), served.clone());
            tasks.push(tokio::spawn(async move {
                struct Leaves(Arc<AtomicU64>);
                impl Drop for Leaves {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, Ordering::SeqCst);
                    }
                }
                let permit = limiter.permit("acme").within(Duration::from_secs(60)).await.unwrap();
                assert!(permit.is_allowed());
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let _leaves = Leaves(now);
                served.fetch_add(1, Ordering::SeqCst);
                // So that other requests may interleave.
                for _ in 0..5 {
                    let _ = limiter.peek("acme").await.unwrap();
                }
                assert!(number % 7 != 0, "on purpose");
            }));
        }
        for task in tasks.iter().step_by(9) {
            task.abort();
        }
        for task in tasks {
            let _ = task.await;
        }
        assert!(served.load(Ordering::SeqCst) >= 50);
        assert_eq!((most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (3, 0));
        until_async("all to be released", async || {
            let left = limiters[0].peek("acme").await.unwrap().remaining();
            if left == Some(3) { Ok(()) } else { Err(left) }
        })
        .await;
    }
}
