//! The rate limit quota filter: Envoys that decide by themselves never exceed the limit together.

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

/// Sends requests through an Envoy as fast as it answers, until `stop` is set.
fn load(envoy: &EnvoyServer, stop: &AtomicBool) -> Vec<Admitted> {
    let mut client = Client::connect(envoy.address()).unwrap();
    let mut admitted = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let sent = now();
        let status = client.get("/").unwrap().status;
        let received = now();
        match status {
            200 => admitted.push(Admitted { sent, received }),
            status => assert_eq!(status, 429),
        }
    }
    admitted
}

/// Loads two Envoys, and returns what each admitted.
fn load_both(envoys: [&EnvoyServer; 2], lasts: Duration) -> [Vec<Admitted>; 2] {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let [one, two] = envoys.map(|envoy| scope.spawn(|| load(envoy, &stop)));
        thread::park_timeout(lasts);
        stop.store(true, Ordering::Relaxed);
        [one.join().unwrap(), two.join().unwrap()]
    })
}

/// Returns the excess of the worst interval: of its requests that were surely admitted in it, over the limit.
fn worst_excess(admitted: &[Admitted]) -> i64 {
    let mut by_end = admitted.to_vec();
    by_end.sort_by_key(|it| it.received);
    let mut worst = i64::MIN;
    for first in admitted {
        let mut count = 0;
        for last in by_end.iter().filter(|it| it.sent >= first.sent) {
            count += 1;
            let flowed = RATE * (last.received - first.sent) / SECOND;
            worst = worst.max(count - BURST - flowed - 1);
        }
    }
    worst
}

/// Checks that two Envoys exceed the limit in no interval, and both get a share.
fn check(envoys: [&EnvoyServer; 2]) {
    // The first one begins with more than its half, which the other one gets after 20 s.
    let both = load_both(envoys, Duration::from_secs(32));
    let all = both.concat();
    let excess = worst_excess(&all);
    assert!(excess <= 0, "{excess} requests too many");
    let end = all.iter().map(|it| it.received).max().unwrap();
    let late = both
        .each_ref()
        .map(|admitted| admitted.iter().filter(|it| end - it.received < 5 * SECOND).count());
    // Half of 98 % would be 490.
    assert!(late.iter().all(|count| *count >= 200), "{late:?} of 1,000 in the last 5 s");
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
