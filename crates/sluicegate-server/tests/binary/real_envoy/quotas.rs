//! The rate limit quota filter: Envoys that decide by themselves never exceed the limit together.
//!
//! With `SLUICEGATE_SOAK=20` the load on two replicas lasts for 21 minutes, and the Envoys pause in turn.

mod auditor;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sluicegate::layers::SuspendAwareClock;
use sluicegate::testing::Clock as _;
use sluicegate_testkit::servers::{EnvoyServer, shared};

use auditor::{Admitted, BURST, RATE, SECOND, worst_excess};

use super::FREE;
use super::documented::snippets;
use crate::support::{Client, File, Service, own_store};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rlqs.md");

fn now() -> i64 {
    i64::try_from(SuspendAwareClock::new().now().as_micros()).unwrap()
}

/// Returns an Envoy with the filter of the page.
fn envoy(service: &Service) -> EnvoyServer {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let filters = snippets(&page, "http_filters:");
    EnvoyServer::calling(service.address_of("grpc")).filters(&filters[0]).start().unwrap()
}

fn service(store: &str) -> Service {
    let text = format!(
        "{store}\nlimits: {{fleet: {{policies: [token_bucket {RATE}/s burst {BURST}], deadline: 5s}}}}\n\
         envoy: {{domains: {{edge: [{{match: {{name: all}}, limit: fleet, key: everybody}}]}}}}"
    );
    let file = File::new("limits.yaml", &text);
    Service::start(&["--config", file.path(), "--grpc", FREE])
}

/// The orders for the client of an Envoy.
#[derive(Default)]
struct Orders {
    pauses: AtomicBool,
    ends: AtomicBool,
}

/// Sends requests through an Envoy by its orders: more than the limit, but with pauses that leave time to the others.
fn load(envoy: &EnvoyServer, orders: &Orders) -> Vec<Admitted> {
    let mut client = Client::connect(envoy.address()).unwrap();
    let mut admitted = Vec::new();
    while !orders.ends.load(Ordering::Relaxed) {
        if orders.pauses.load(Ordering::Relaxed) {
            thread::park_timeout(Duration::from_millis(10));
            continue;
        }
        let sent = now();
        let status = client.get("/").unwrap().status;
        let received = now();
        match status {
            200 => admitted.push(Admitted { sent, received }),
            429 => thread::park_timeout(Duration::from_millis(2)),
            status => panic!("status {status}"),
        }
    }
    admitted
}

/// Loads two Envoys for some rounds. Returns what each admitted, and the instants when the rounds ended.
fn load_both(envoys: [&EnvoyServer; 2], rounds: usize) -> ([Vec<Admitted>; 2], Vec<i64>) {
    let orders = [Orders::default(), Orders::default()];
    let wait = |seconds| thread::park_timeout(Duration::from_secs(seconds));
    let mut ends = Vec::new();
    thread::scope(|scope| {
        let [one, two] = [0, 1].map(|index| {
            let (envoy, orders) = (envoys[index], &orders[index]);
            scope.spawn(move || load(envoy, orders))
        });
        // The first one begins with more than its half, which the other one gets after 20 s.
        wait(32);
        ends.push(now());
        for round in 1..rounds {
            let pauses = &orders[round % 2].pauses;
            pauses.store(true, Ordering::Relaxed);
            wait(24);
            pauses.store(false, Ordering::Relaxed);
            wait(40);
            ends.push(now());
        }
        orders.iter().for_each(|orders| orders.ends.store(true, Ordering::Relaxed));
        ([one.join().unwrap(), two.join().unwrap()], ends)
    })
}

/// Returns the rounds of a load: one, or the value of `SLUICEGATE_SOAK`, up to 20.
fn rounds() -> usize {
    let rounds = std::env::var("SLUICEGATE_SOAK").map_or(1, |rounds| rounds.parse().unwrap());
    rounds.clamp(1, 20)
}

/// Checks that two Envoys exceed the limit in no interval, both get a share, and together they use most of the limit.
#[expect(clippy::print_stdout, reason = "the numbers of a soak")]
fn check(envoys: [&EnvoyServer; 2], rounds: usize) {
    let (both, ends) = load_both(envoys, rounds);
    let all = both.concat();
    let excess = worst_excess(&all);
    println!(
        "{} requests were admitted, and the fullest interval had room for {} more",
        all.len(),
        -excess
    );
    assert!(excess <= 0, "{excess} requests too many");
    for end in ends {
        let late = both.each_ref().map(|admitted| {
            let is_late = |it: &&Admitted| (end - 5 * SECOND..end).contains(&it.received);
            admitted.iter().filter(is_late).count()
        });
        // Half of 98 % would be 490.
        assert!(late.iter().all(|count| *count >= 200), "{late:?} of 1,000 in the last 5 s");
        assert!(late.iter().sum::<usize>() >= 850, "{late:?} of 1,000 in the last 5 s");
    }
}

#[test]
fn two_envoys_of_one_service_share_a_limit_and_never_exceed_it() {
    let service = service("store: \"memory:\"");
    let envoys = [envoy(&service), envoy(&service)];
    check(envoys.each_ref(), 1);
    let fleet = service.get("/v1/fleet").json();
    assert_eq!(fleet["quotas"]["streams"], 2, "{fleet}");
    let row = &fleet["quotas"]["limits"][0];
    assert_eq!(row["shares"]["assigned_buckets"], 2, "{fleet}");
    assert_eq!(row["busiest"][0]["shares"], row["shares"], "the limit has one key: {fleet}");
    assert!(service.metric("sluicegate_quota_buckets") >= 2);
    let allowed = service
        .metric("sluicegate_decisions_total{limit=\"fleet\",policy=\"\",outcome=\"allowed\"}");
    assert!(allowed > 1_000, "what Envoys report is counted: {allowed}");
}

#[test]
fn envoys_of_two_replicas_share_a_limit_and_never_exceed_it() {
    let store = own_store(shared().unwrap().url());
    let services = [service(&store), service(&store)];
    let envoys = services.each_ref().map(envoy);
    check(envoys.each_ref(), rounds());
}
