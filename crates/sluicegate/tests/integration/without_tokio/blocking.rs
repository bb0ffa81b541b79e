//! `blocking()` on every store, from every thread.

use std::time::Duration;

use sluicegate::store::SharedStore;
use sluicegate::{Config, Gate, Limiter, MemoryStore, Registry};
use sluicegate_testkit::servers::{Cluster, Sentinels, Server, fresh_prefix};
use sluicegate_testkit::wait::until;

use super::{embedded, limit, of_one_thread, of_several_threads, on_server, redis};

const ROOMY: &str = "token_bucket 1/h burst 1000";

/// Blocks in every kind of thread, also after the store was awaited in it.
macro_rules! block_everywhere {
    ($limiter:expr) => {{
        let limiter = $limiter;
        let blocks = || assert!(limiter.check("alice").blocking().unwrap().is_allowed());
        blocks();
        for runtime in [of_one_thread(), of_several_threads()] {
            runtime.block_on(async {
                blocks();
                assert!(limiter.check("alice").await.unwrap().is_allowed());
                blocks();
                let (first, second) = (limiter.clone(), limiter.clone());
                let task = async move { first.check("alice").blocking().unwrap().is_allowed() };
                assert!(tokio::spawn(task).await.unwrap());
                let thread = move || second.check("alice").blocking().unwrap().is_allowed();
                assert!(tokio::task::spawn_blocking(thread).await.unwrap());
            });
        }
        blocks();
    }};
}

fn limiter(url: &str) -> Limiter {
    Limiter::new(SharedStore::new(redis(url)), limit(&[ROOMY]))
}

#[test]
fn an_embedded_store_answers_a_blocked_thread() {
    block_everywhere!(embedded(&[ROOMY]));
}

#[test]
fn a_server_answers_a_blocked_thread() {
    let server = Server::start().unwrap();
    block_everywhere!(limiter(&server.url()));
}

/// The connection of the first request is served by the thread that the second one blocks.
#[test]
fn a_server_that_was_awaited_by_the_only_thread_of_a_runtime_answers_it_when_it_blocks() {
    let server = Server::start().unwrap();
    let limiter = on_server(&server, &[ROOMY]);
    of_one_thread().block_on(async {
        for _ in 0..3 {
            assert!(limiter.check("alice").await.unwrap().is_allowed());
            let start = tokio::time::Instant::now();
            assert!(limiter.check("alice").blocking().unwrap().is_allowed());
            assert!(start.elapsed() < super::DEADLINE, "{:?}", start.elapsed());
        }
    });
}

#[test]
fn the_primary_of_sentinels_answers_a_blocked_thread() {
    let sentinels = Sentinels::start().unwrap();
    let hosts: Vec<_> =
        sentinels.sentinels().iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    block_everywhere!(limiter(&format!(
        "redis+sentinel://{}/{}",
        hosts.join(","),
        sentinels.name()
    )));
}

#[test]
fn a_cluster_answers_a_blocked_thread() {
    let cluster = Cluster::start().unwrap();
    let hosts = cluster.urls();
    let hosts: Vec<_> = hosts.iter().map(|url| url.trim_start_matches("redis://")).collect();
    block_everywhere!(limiter(&format!("redis+cluster://{}", hosts.join(","))));
}

fn layered(server: &Server) -> Gate {
    let config = format!(
        "store: {}
redis: {{prefix: \"{}\"}}
fallback: {{processes: 2}}
limits: {{jobs: {{policies: [{ROOMY}], deny_cache: true, leases: true, retry_unknown: true, on_store_failure: local}}}}",
        server.url(),
        fresh_prefix("no-tokio")
    );
    Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap().gate("jobs")
}

#[test]
fn a_store_with_all_layers_answers_a_blocked_thread() {
    let server = Server::start().unwrap();
    block_everywhere!(layered(&server));
}

#[test]
fn a_wait_blocks_the_thread_until_the_turn_comes() {
    let server = Server::start().unwrap();
    let within = Duration::from_secs(5);
    let spec = ["gcra 100/s burst 1"];
    let waits = || {
        let embedded = embedded(&spec);
        let on_server = on_server(&server, &spec);
        for _ in 0..3 {
            assert!(embedded.check("a").within(within).blocking().unwrap().is_allowed());
            assert!(on_server.check("a").within(within).blocking().unwrap().is_allowed());
        }
    };
    waits();
    of_one_thread().block_on(async { waits() });
    of_several_threads().block_on(async { waits() });
}

#[test]
fn a_permit_that_was_taken_by_a_blocked_thread_is_renewed_and_is_released_outside_of_runtimes() {
    let server = Server::start().unwrap();
    let spec = ["concurrency 1 hold 1s"];
    let takes = |limiter: &Limiter| {
        let within = Duration::from_secs(5);
        let first = limiter.permit("acme").within(within).blocking().unwrap();
        assert!(first.is_allowed());
        // It would have expired before the second one.
        let waited =
            limiter.permit("acme").within(Duration::from_millis(1_200)).blocking().unwrap();
        assert!(waited.is_denied() && !first.is_lost());
        first
    };
    let free = |limiter: &Limiter| {
        let take = || limiter.permit("acme").blocking().unwrap();
        until("a free permit", || Some(take()).filter(|permit| permit.is_allowed()).ok_or(()))
    };
    for limiter in [
        Limiter::new(SharedStore::new(MemoryStore::new()), limit(&spec)),
        Limiter::new(SharedStore::new(redis(&server.url())), limit(&spec)),
    ] {
        drop(takes(&limiter));
        // The same in a runtime whose only thread each call blocks. A permit is released meanwhile.
        of_one_thread().block_on(async {
            drop(takes(&limiter));
            let within = Duration::from_secs(5);
            let awaited = limiter.permit("acme").within(within).await.unwrap();
            assert!(awaited.is_allowed());
            drop(awaited);
            assert!(limiter.permit("acme").within(within).blocking().unwrap().is_allowed());
        });
        // The runtime of the second one has ended before its drop.
        let permit = of_one_thread().block_on(async { free(&limiter) });
        drop(permit);
        drop(free(&limiter));
    }
}
