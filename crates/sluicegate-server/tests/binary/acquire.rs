//! Tests waiting for units over HTTP.

use rustix::process::Signal;
use serde_json::json;
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until;

use crate::support::{Client, File, Service};

const LIMITS: &str = r#"
limits:
  slow: {policies: ["gcra 1/min"]}
  soon: {policies: ["gcra 50/s"]}
  window: {policies: ["fixed_window 1/500ms"]}
  day: {policies: ["fixed_window 1/d"]}
  queue: {policies: ["shaper 50/s queue 9"]}
  mixed: {policies: ["shaper 50/s queue 9", "fixed_window 9/d"]}
"#;

fn start(service: &str) -> Service {
    let file = File::new("limits.yaml", &format!("service: {service}\n{LIMITS}"));
    Service::start(&["--config", file.path()])
}

fn body(limit: &str, within: &str) -> String {
    json!({"limit": limit, "key": "a", "within": within}).to_string()
}

/// Returns the bytes of a request.
fn request(body: &str) -> String {
    format!("POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Returns the time until the next request to the slow limit would pass, in seconds: one minute per
/// request ahead.
fn behind(service: &Service) -> u64 {
    let peeked = service.post("/v1/peek", r#"{"limit":"slow","key":"a"}"#).json();
    peeked["retry_after_ms"].as_u64().unwrap().div_ceil(1_000)
}

fn wait_until_behind(service: &Service, seconds: std::ops::RangeInclusive<u64>) {
    until("that many stand in line", || match behind(service) {
        there if seconds.contains(&there) => Ok(()),
        there => Err(there),
    });
}

fn waiting(service: &Service) -> u64 {
    let metrics = service.get("/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("sluicegate_waiting_requests "));
    line.unwrap().parse().unwrap()
}

/// Regression test: each retry by the service was a denial in the metrics and on the page.
#[test]
fn a_caller_that_waits_is_counted_and_listed_once() {
    let service = start("{}");
    for _ in 0..2 {
        assert_eq!(service.post("/v1/acquire", body("window", "1min")).status, 200);
    }
    let count = |policy: &str, outcome: &str| {
        service.metric(&format!(
            "sluicegate_decisions_total{{limit=\"window\",policy=\"{policy}\",outcome=\"{outcome}\"}}"
        ))
    };
    assert_eq!((count("", "allowed"), count("fixed_window", "denied")), (2, 0));
    let recent = service.get("/v1/recent").json();
    assert_eq!(recent["recent"].as_array().map(Vec::len), Some(2), "{recent}");
}

#[test]
fn each_gets_its_turn_and_is_told_nothing_of_a_wait_that_is_over() {
    let service = start("{}");
    for limit in ["soon", "window", "queue"] {
        for _ in 0..3 {
            let reply = service.post("/v1/acquire", body(limit, "1min"));
            assert_eq!(reply.status, 200, "{limit}: {reply:?}");
            let answer = reply.json();
            assert_eq!(answer["allowed"], true);
            assert!(!reply.body.contains("wait_ms"), "{limit}: {}", reply.body);
            assert!(reply.field("ratelimit").is_some(), "{limit}");
        }
    }
}

#[test]
fn what_is_hopeless_is_denied_at_once_and_takes_nothing() {
    let service = start("{}");
    for limit in ["slow", "day"] {
        assert_eq!(service.post("/v1/acquire", body(limit, "0s")).status, 200, "{limit}");
        let denied = service.post("/v1/acquire", body(limit, "10s"));
        assert_eq!(denied.status, 429, "{limit}");
        let retry = denied.json()["retry_after_ms"].as_u64().unwrap();
        assert_eq!(denied.field("retry-after"), Some(&*retry.div_ceil(1_000).to_string()));
    }
    assert!(behind(&service) <= 60, "the denied one stands in no line");
    let never = json!({"limit": "slow", "key": "a", "cost": 2, "within": "10s"}).to_string();
    let never = service.post("/v1/acquire", never);
    assert_eq!((never.status, never.json()["retry_after_ms"].clone()), (429, json!(null)));
    let mixed = service.post("/v1/acquire", body("mixed", "10s"));
    assert_eq!((mixed.status, &*mixed.error_code()), (400, "unsupported"));
}

#[test]
fn who_hangs_up_gives_the_turn_back() {
    let service = start("{}");
    assert_eq!(service.post("/v1/acquire", body("slow", "0s")).status, 200);
    for half in [false, true] {
        let mut client = Client::connect(service.address()).unwrap();
        client.send(&request(&body("slow", "10min"))).unwrap();
        wait_until_behind(&service, 61..=120);
        assert_eq!(waiting(&service), 1);
        if half {
            client.finish_sending().unwrap();
            let reply = client.reply().unwrap();
            assert_eq!((reply.status, &*reply.error_code()), (400, "hung_up"));
        } else {
            drop(client);
        }
        wait_until_behind(&service, 0..=60);
        until("the place is free", || match waiting(&service) {
            0 => Ok(()),
            places => Err(places),
        });
    }
}

/// A second request on the connection must not hide that the client has gone.
#[test]
fn who_hangs_up_after_sending_more_gives_the_turn_back_too() {
    let service = start("{}");
    assert_eq!(service.post("/v1/acquire", body("slow", "0s")).status, 200);
    let mut client = Client::connect(service.address()).unwrap();
    client.send(&request(&body("slow", "10min"))).unwrap();
    wait_until_behind(&service, 61..=120);
    client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    drop(client);
    wait_until_behind(&service, 0..=60);
}

#[test]
fn a_turn_on_a_server_is_given_back_as_well() {
    let server = Server::start().unwrap();
    let limits = LIMITS.replace("\"]}", "\"], deadline: 5s}");
    let file = File::new("limits.yaml", &format!("store: \"{}\"{limits}", server.url()));
    let service = Service::start(&["--config", file.path()]);
    assert_eq!(service.post("/v1/acquire", body("slow", "0s")).status, 200);
    let mut client = Client::connect(service.address()).unwrap();
    client.send(&request(&body("slow", "10min"))).unwrap();
    wait_until_behind(&service, 61..=120);
    drop(client);
    wait_until_behind(&service, 0..=60);
    assert_eq!(service.post("/v1/acquire", body("soon", "1min")).status, 200);
    assert_eq!(service.post("/v1/acquire", body("window", "1min")).status, 200);
}

/// Waiting requests hold no permit to call the store, and leave connections for other clients.
#[test]
fn a_crowd_that_waits_is_bounded_and_keeps_nobody_out() {
    let service = start("{max_waiting: 3, max_requests: 1}");
    assert_eq!(service.post("/v1/acquire", body("slow", "0s")).status, 200);
    let mut crowd: Vec<_> = (0..3).map(|_| Client::connect(service.address()).unwrap()).collect();
    for (client, seconds) in crowd.iter_mut().zip([61..=120, 121..=180, 181..=240]) {
        client.send(&request(&body("slow", "10min"))).unwrap();
        wait_until_behind(&service, seconds);
    }
    assert_eq!(waiting(&service), 3);
    let denied = service.post("/v1/acquire", body("slow", "10min"));
    assert_eq!(denied.status, 429, "there is no place");
    assert_eq!(service.post("/v1/acquire", body("soon", "10min")).status, 200, "no wait is needed");
    assert_eq!(service.post("/v1/check", r#"{"limit":"day","key":"a"}"#).status, 200);
    drop(crowd);
    until("the places are free", || match waiting(&service) {
        0 => Ok(()),
        places => Err(places),
    });
}

#[test]
fn who_waits_holds_at_most_half_of_the_connections() {
    let service = start("{max_connections: 5}");
    assert_eq!(service.post("/v1/acquire", body("slow", "0s")).status, 200);
    let mut crowd: Vec<_> = (0..2).map(|_| Client::connect(service.address()).unwrap()).collect();
    for (client, seconds) in crowd.iter_mut().zip([61..=120, 121..=180]) {
        client.send(&request(&body("slow", "10min"))).unwrap();
        wait_until_behind(&service, seconds);
    }
    assert_eq!(service.post("/v1/acquire", body("slow", "10min")).status, 429);
    assert_eq!(service.get("/healthz").status, 200);
}

/// A wait may be longer than the shutdown timeout.
#[test]
fn who_waits_when_the_service_stops_is_told_so() {
    let file = File::new("limits.yaml", LIMITS);
    let mut args = vec!["--config", file.path(), "--admin-token", "s3cret"];
    args.extend(["--drain", "0s", "--shutdown-timeout", "60s"]);
    let mut service = Service::start(&args);
    assert_eq!(service.post("/v1/acquire", body("slow", "0s")).status, 200);
    let mut client = Client::connect(service.address()).unwrap();
    client.send(&request(&body("slow", "10min"))).unwrap();
    wait_until_behind(&service, 61..=120);
    service.signal(Signal::TERM);
    let reply = client.reply().unwrap();
    assert_eq!((reply.status, &*reply.error_code()), (503, "draining"));
    let (status, stderr) = service.wait();
    assert_eq!((status.code(), &*stderr), (Some(0), ""));
}
