//! The rate limit quota filter: Envoys that decide by themselves never exceed the limit together.
//!
//! With `SLUICEGATE_SOAK=20` the load lasts for 20 minutes, and the Envoys pause in turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sluicegate::layers::SuspendAwareClock;
use sluicegate::testing::Clock as _;
use sluicegate_testkit::servers::{EnvoyServer, fresh_prefix, shared};

use super::FREE;
use super::documented::snippets;
use crate::support::{Client, File, Service};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rlqs.md");
const RATE: i64 = 200;
const BURST: i64 = 400;
const SECOND: i64 = 1_000_000;
/// The number of requests that are under way at the same time: one through each Envoy.
const IN_FLIGHT: i64 = 2;

/// A request that was admitted between these instants, in µs.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    sent: i64,
    received: i64,
}

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
        "{store}\nlimits: {{fleet: {{policies: [token_bucket 200/s burst 400], deadline: 5s}}}}\n\
         envoy: {{domains: {{edge: [{{match: {{name: all}}, limit: fleet, key: everybody}}]}}}}"
    );
    let file = File::new("limits.yaml", &text);
    Service::start(&["--config", file.path(), "--grpc", FREE])
}

/// What the client of an Envoy does.
#[derive(Default)]
struct Orders {
    pauses: AtomicBool,
    ends: AtomicBool,
}

/// Sends requests through an Envoy as it is told: more than the limit, and no more than leaves time for the others.
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

/// Returns the excess of the worst interval: of its requests that were surely admitted in it, over the limit.
fn worst_excess(admitted: &[Admitted]) -> i64 {
    let mut by_end = admitted.to_vec();
    by_end.sort_by_key(|it| it.received);
    let mut worst = i64::MIN;
    for first in admitted {
        let mut count = 0;
        let from = by_end.partition_point(|it| it.received < first.sent);
        for last in by_end[from..].iter().filter(|it| it.sent >= first.sent) {
            count += 1;
            let beyond_rate = count - RATE * (last.received - first.sent) / SECOND;
            worst = worst.max(beyond_rate - BURST - 1);
            // A longer interval has at most as much as the one that begins here, and the requests under way.
            if beyond_rate < -IN_FLIGHT {
                break;
            }
        }
    }
    worst
}

/// Checks that two Envoys exceed the limit in no interval, both get a share, and together they use most of the limit.
fn check(envoys: [&EnvoyServer; 2]) {
    let rounds = std::env::var("SLUICEGATE_SOAK").map_or(1, |rounds| rounds.parse().unwrap());
    let (both, ends) = load_both(envoys, rounds);
    let all = both.concat();
    let excess = worst_excess(&all);
    println!("{} requests were admitted, the worst interval has {excess} too many", all.len());
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
    check(envoys.each_ref());
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
    let server = shared().unwrap();
    let store =
        format!("store: \"{}\"\nredis: {{prefix: \"{}\"}}", server.url(), fresh_prefix("quotas"));
    let services = [service(&store), service(&store)];
    let envoys = services.each_ref().map(envoy);
    check(envoys.each_ref());
}

/// The auditor sees an interval that no sum over the whole run shows.
#[test]
fn the_auditor_finds_a_burst_that_is_given_twice() {
    let at = |millis: i64| Admitted { sent: millis * 1_000, received: millis * 1_000 + 10 };
    let steady = (0..2_000).map(|index| at(10_000 + index * 5));
    let twice = (0..500).map(|_| at(25_000));
    let within: Vec<_> = steady.clone().chain((0..399).map(|_| at(25_000))).collect();
    assert!(worst_excess(&within) <= 0);
    assert!(worst_excess(&steady.chain(twice).collect::<Vec<_>>()) > 90);
}

/// The auditor leaves out intervals. It finds the same as one that leaves out none.
#[test]
fn the_auditor_finds_the_worst_of_all_intervals() {
    for seed in 0..100 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut ends = [0; 2];
        let mut admitted: Vec<Admitted> = Vec::new();
        for _ in 0..100 {
            let client = dice.usize(..2);
            let sent = ends[client] + dice.i64(0..=2 * SECOND / RATE) * dice.i64(0..=2);
            ends[client] = sent + dice.i64(1..5_000);
            admitted.push(Admitted { sent, received: ends[client] });
        }
        let mut worst = i64::MIN;
        for first in &admitted {
            for last in &admitted {
                let is_in = |it: &&Admitted| it.sent >= first.sent && it.received <= last.received;
                if is_in(&last) {
                    let count = i64::try_from(admitted.iter().filter(is_in).count()).unwrap();
                    let flowed = RATE * (last.received - first.sent) / SECOND;
                    worst = worst.max(count - flowed - BURST - 1);
                }
            }
        }
        assert_eq!(worst_excess(&admitted), worst, "{seed}");
    }
}
