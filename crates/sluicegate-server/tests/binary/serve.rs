//! Tests the service's answers.

use std::io::Write as _;
use std::net::SocketAddr;

use serde_json::json;

use crate::support::{File, Reply, Service, binary};

const SLOW: &str = r#"
limits:
  login: {policies: ["token_bucket 1/h burst 2", "fixed_window 100/d as day"]}
  llm: {policies: ["fixed_window 10/d as requests", "fixed_window 1000/d as tokens"]}
  queue: {policies: ["shaper 1/min queue 9"]}
  smooth: {policies: ["smooth 1/h start full"]}
  none: {policies: ["fixed_window 0/d"]}
  watched: {policies: ["fixed_window 5/d", "fixed_window 1/d as strict shadow"]}
"#;

fn slow() -> Service {
    let file = File::new("limits.yaml", SLOW);
    Service::start(&["--config", file.path()])
}

#[test]
fn without_a_config_there_is_a_demo_limit() {
    let service = Service::start(&[]);
    let reply = service.post("/v1/check", r#"{"limit":"demo","key":"alice","cost":1}"#);
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.body,
        r#"{"allowed":true,"limit":"demo","source":"store","binding":null,"retry_after_ms":0,"retry_after_us":0,"policies":[{"name":"token_bucket","limit":20,"remaining":19,"retry_after_ms":0,"retry_after_us":0,"reset_after_ms":100,"reset_after_us":100000,"allowed":true}]}"#
    );
    assert_eq!(reply.field("content-type"), Some("application/json"));
    assert_eq!(reply.field("cache-control"), Some("no-store"));
    assert_eq!(reply.field("ratelimit-policy"), Some(r#""token_bucket";q=20;w=2"#));
    assert_eq!(reply.field("ratelimit"), Some(r#""token_bucket";r=19;t=1"#));
    assert_eq!(reply.field("retry-after"), None);
}

#[test]
fn a_denial_says_when_to_come_back() {
    let service = slow();
    let ask = |cost: u64| {
        service.post("/v1/check", json!({"limit": "login", "key": "a", "cost": cost}).to_string())
    };
    assert_eq!(ask(2).status, 200);
    let denied = ask(1);
    assert_eq!(denied.status, 429);
    let json = denied.json();
    assert_eq!(json["allowed"], false);
    assert_eq!(json["binding"], "token_bucket");
    let retry = json["retry_after_ms"].as_u64().unwrap();
    // A little of the hour may have passed.
    assert!((3_540_000..=3_600_000).contains(&retry), "{retry}");
    assert_eq!(json["policies"][0]["allowed"], false);
    assert_eq!(json["policies"][0]["remaining"], 0);
    assert_eq!(json["policies"][1]["allowed"], true);
    assert_eq!(json["policies"][1]["retry_after_ms"], 0);
    assert_eq!(json["policies"][1]["remaining"], 98, "a denied request charges nothing");
    let seconds: u64 = denied.field("retry-after").unwrap().parse().unwrap();
    assert_eq!(seconds, retry.div_ceil(1_000));
    let fields = denied.field("ratelimit").unwrap();
    let day = json["policies"][1]["reset_after_ms"].as_u64().unwrap().div_ceil(1_000);
    assert!(day > 80_000, "{day}");
    assert_eq!(fields, format!(r#""token_bucket";r=0;t={seconds}, "day";r=98;t={day}"#));
    assert_eq!(
        denied.field("ratelimit-policy"),
        Some(r#""token_bucket";q=2;w=7200, "day";q=100;w=86400"#)
    );
}

#[test]
fn a_cost_above_the_limit_is_never_and_has_no_retry_after() {
    let service = slow();
    for (limit, cost) in [("login", 3), ("login", (1_u64 << 53) - 1), ("none", 1)] {
        let body = json!({"limit": limit, "key": "a", "cost": cost}).to_string();
        let reply = service.post("/v1/check", body);
        assert_eq!(reply.status, 429);
        assert_eq!(reply.json()["retry_after_ms"], json!(null));
        assert_eq!(reply.json()["policies"][0]["retry_after_ms"], json!(null));
        assert_eq!(reply.field("retry-after"), None);
    }
}

#[test]
fn a_cost_can_be_a_map_from_policy_to_number() {
    let service = slow();
    let check = |cost: &str| {
        service.post("/v1/check", format!(r#"{{"limit":"llm","key":"a","cost":{cost}}}"#)).json()
    };
    let remaining = |json: serde_json::Value| {
        [0, 1].map(|index| json["policies"][index]["remaining"].as_u64().unwrap())
    };
    assert_eq!(remaining(check(r#"{"requests":1,"tokens":400}"#)), [9, 600]);
    assert_eq!(remaining(check(r#"{"tokens":600}"#)), [9, 0], "who isn't named isn't touched");
    assert_eq!(remaining(check(r#"{"tokens":0}"#)), [9, 0], "0 is never a reason to refuse");
    assert_eq!(check("1")["binding"], "tokens");
}

#[test]
fn a_map_touches_only_the_policies_that_it_names_in_every_operation() {
    let service = slow();
    let ask = |operation: &str, cost: &str| {
        let body = format!(r#"{{"limit":"llm","key":"a","cost":{cost}}}"#);
        service.post(&format!("/v1/{operation}"), body).json()
    };
    let left = |json: &serde_json::Value| {
        [0, 1].map(|index| json["policies"][index]["remaining"].as_u64().unwrap())
    };
    assert_eq!(left(&ask("check", "10")), [0, 990]);
    // No request is left, but the peek asks for none.
    let peeked = ask("peek", r#"{"tokens":990}"#);
    assert_eq!((peeked["allowed"].clone(), left(&peeked)), (json!(true), [0, 990]));
    assert_eq!(ask("peek", r#"{"requests":1,"tokens":990}"#)["binding"], "requests");
    assert_eq!(left(&ask("check", r#"{"tokens":500}"#)), [0, 490]);
    assert_eq!(left(&ask("refund", r#"{"tokens":300}"#)), [0, 790]);
    assert_eq!(left(&ask("refund", r#"{"requests":2}"#)), [2, 790]);
    assert_eq!(left(&ask("reset", r#"{"tokens":1}"#)), [10, 1000], "a reset forgets the key");
}

#[test]
fn the_cost_in_a_field_of_the_next_draft_is_that_of_the_map() {
    let file = File::new("limits.yaml", &format!("http: {{fields: draft-next}}{SLOW}"));
    let service = Service::start(&["--config", file.path()]);
    let body = r#"{"limit":"llm","key":"a","cost":{"tokens":400}}"#;
    let fields = service.post("/v1/check", body);
    let fields = fields.field("ratelimit").unwrap();
    assert!(fields.starts_with(r#""requests";a=10;"#), "{fields}");
    assert!(fields.contains(";c=0, \"tokens\";a=600;"), "{fields}");
    assert!(fields.ends_with(";c=400"), "{fields}");
}

#[test]
fn peeking_changes_nothing_and_answers_200_although_it_would_be_denied() {
    let service = slow();
    let body = r#"{"limit":"login","key":"a","cost":2}"#;
    let peek = || service.post("/v1/peek", body);
    assert_eq!(peek().body, peek().body);
    assert_eq!(service.post("/v1/check", body).status, 200);
    let denied = peek();
    assert_eq!((denied.status, denied.json()["allowed"].clone()), (200, json!(false)));
    assert_eq!(denied.field("ratelimit"), None);
    assert_eq!(denied.field("retry-after"), None);
}

const LISTED: &str = r#"
limits:
  api:
    key: header:x-tenant+user
    policies: ["fixed_window 2/d"]
    allow: ["acme|*"]
    block: ["evil|*", "*|mallory"]
"#;

#[test]
fn a_key_on_the_block_list_is_forbidden() {
    let file = File::new("limits.yaml", LISTED);
    let service = Service::start(&["--config", file.path()]);
    let ask = |verb: &str, key: &str| {
        service.post(&format!("/v1/{verb}"), json!({"limit": "api", "key": key}).to_string())
    };
    for key in ["evil|alice", "oscorp|mallory"] {
        let reply = ask("check", key);
        assert_eq!(reply.status, 403, "{key}");
        assert_eq!(
            reply.body,
            r#"{"allowed":false,"limit":"api","source":"bypass","binding":null,"retry_after_ms":null,"retry_after_us":null,"policies":[]}"#
        );
        assert_eq!((reply.field("retry-after"), reply.field("ratelimit")), (None, None));
        let peeked = ask("peek", key);
        assert_eq!((peeked.status, peeked.json()["allowed"].clone()), (200, json!(false)));
        // Units that were taken before the key was blocked can be refunded.
        assert_eq!((ask("refund", key).status, ask("reset", key).status), (200, 200));
    }
    for _ in 0..5 {
        let reply = ask("check", "acme|alice");
        assert_eq!((reply.status, reply.json()["source"].clone()), (200, json!("bypass")));
    }
    let statuses = [(); 3].map(|()| ask("check", "oscorp|alice").status);
    assert_eq!(statuses, [200, 200, 429], "who is on no list is counted");
    let metrics = service.get("/metrics").body;
    for line in [
        r#"sluicegate_decisions_total{limit="api",policy="",outcome="blocked"} 2"#,
        r#"sluicegate_decisions_total{limit="api",policy="",outcome="bypassed"} 5"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let recent = service.get("/v1/recent").json()["recent"].clone();
    let blocked = recent.as_array().unwrap().iter().filter(|it| it["allowed"] == false);
    assert_eq!(blocked.count(), 3, "two blocked and one denied: {recent}");
}

#[test]
fn units_are_given_back_and_keys_forgotten() {
    let service = slow();
    let body = r#"{"limit":"llm","key":"a","cost":4}"#;
    assert_eq!(service.post("/v1/check", body).json()["policies"][0]["remaining"], 6);
    let refunded = service.post("/v1/refund", r#"{"limit":"llm","key":"a","cost":3}"#);
    assert_eq!(
        (refunded.status, refunded.json()["policies"][0]["remaining"].clone()),
        (200, json!(9))
    );
    assert_eq!(refunded.json()["policies"][0]["given_back"], 3);
    let more = service.post("/v1/refund", r#"{"limit":"llm","key":"a","cost":3}"#).json();
    assert_eq!(more["policies"][0]["given_back"], 1, "no more than was taken");
    assert_eq!(more.get("forgotten"), None);
    let reset = service.post("/v1/reset", r#"{"limit":"llm","key":"a"}"#);
    assert_eq!(reset.json()["forgotten"], true);
    assert_eq!(reset.json()["policies"][0].get("given_back"), None);
    assert_eq!((reset.status, reset.json()["policies"][0]["remaining"].clone()), (200, json!(10)));
    assert_eq!(reset.json()["allowed"], true);
    let again = service.post("/v1/reset", r#"{"limit":"llm","key":"a"}"#).json();
    assert_eq!(again["forgotten"], false);
}

#[test]
fn a_shaper_says_when_to_act_and_smooth_has_no_bound() {
    let service = slow();
    let check =
        |limit: &str| service.post("/v1/check", json!({"limit": limit, "key": "a"}).to_string());
    assert_eq!(check("queue").json().get("wait_ms"), None);
    let waiting = check("queue").json()["wait_ms"].as_u64().unwrap();
    assert!((59_000..=60_000).contains(&waiting), "{waiting}");
    let smooth = service.post("/v1/peek", r#"{"limit":"smooth","key":"a"}"#).json();
    assert_eq!(
        (smooth["policies"][0]["limit"].clone(), smooth["policies"][0]["remaining"].clone()),
        (json!(null), json!(null))
    );
    assert_eq!(check("smooth").field("ratelimit-policy"), Some(r#""smooth";q=1;w=3600"#));
}

#[test]
fn a_shadow_is_reported_and_refuses_nothing() {
    let service = slow();
    let check = || service.post("/v1/check", r#"{"limit":"watched","key":"a"}"#);
    assert_eq!(check().status, 200);
    let reply = check();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["policies"][1]["shadow"], true);
    assert_eq!(reply.json()["policies"][1]["allowed"], false);
    assert_eq!(reply.field("ratelimit-policy"), Some(r#""fixed_window";q=5;w=86400"#));
    let metrics = service.get("/metrics").body;
    assert!(
        metrics.contains(
            r#"sluicegate_decisions_total{limit="watched",policy="strict",outcome="shadow_denied"} 1"#
        ),
        "{metrics}"
    );
}

#[test]
fn the_service_tells_its_limits_its_health_and_its_counters() {
    let service = slow();
    let mut limit = service.get("/v1/limits").json()["limits"][0].clone();
    let file = limit.as_object_mut().unwrap().remove("file").unwrap();
    assert!(file.as_str().unwrap().ends_with("limits.yaml"), "{file}");
    assert_eq!(
        limit,
        json!({
            "name": "login", "enabled": true, "key": "ip", "missing_key": "shared", "on_store_failure": "error",
            "deadline_ms": 50, "deadline_us": 50_000, "allow": 0, "block": 0, "overrides": 0,
            "run_time_overrides": 0, "is_overridden": false, "line": 3, "column": 3, "rollout": "enforced",
            "policies": [
                {"name": "token_bucket", "spec": "token_bucket 1/h burst 2", "shadow": false},
                {"name": "day", "spec": "fixed_window 100/d as day", "shadow": false},
            ],
        })
    );
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(service.get("/readyz").status, 200);
    for cost in [2, 1, 3] {
        service.post(
            "/v1/check",
            json!({"limit": "login", "key": "do-not-label-me", "cost": cost}).to_string(),
        );
    }
    let reply = service.get("/metrics");
    assert_eq!(reply.status, 200);
    let plain = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(reply.field("content-type"), Some(plain));
    for line in [
        r#"sluicegate_decisions_total{limit="login",policy="",outcome="allowed"} 1"#,
        r#"sluicegate_decisions_total{limit="login",policy="token_bucket",outcome="denied"} 2"#,
        "sluicegate_decision_seconds_count 3",
        "# TYPE sluicegate_store_errors_total counter",
        // The number of keys for one limit with two policies depends on the store.
        "sluicegate_store_keys ",
        "sluicegate_store_evictions_total 0",
        concat!("sluicegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\",features=\""),
    ] {
        assert!(reply.body.contains(line), "{line} in {}", reply.body);
    }
    assert!(!reply.body.contains("do-not-label-me"));
}

#[test]
fn the_page_has_nothing_inline_and_keys_stay_text() {
    let service = Service::start(&[]);
    let page = service.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.field("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for inline in ["<style", "style=", "onclick", "http:", "https:"] {
        assert!(!page.body.contains(inline), "{inline}");
    }
    let key = "<img src=x onerror=alert(1)>\u{0}\u{202e}";
    assert_eq!(
        service.post("/v1/check", json!({"limit": "demo", "key": key}).to_string()).status,
        200
    );
    let recent = service.get("/v1/recent");
    assert_eq!(recent.field("content-type"), Some("application/json"));
    assert_eq!(recent.field("x-content-type-options"), Some("nosniff"));
    let entry = recent.json()["recent"][0].clone();
    assert_eq!((entry["key"].as_str(), entry["allowed"].as_bool()), (Some(key), Some(true)));
}

#[test]
fn keys_are_apart_whatever_they_hold() {
    let service = slow();
    for key in ["-", "a", "a ", "a\0", "{a}", "a:b", "é", &"x".repeat(10_000), "a\n"] {
        let body = json!({"limit": "login", "key": key, "cost": 2}).to_string();
        assert_eq!(service.post("/v1/check", &body).status, 200, "{key:?}");
        assert_eq!(service.post("/v1/check", &body).status, 429, "{key:?}");
    }
}

#[test]
fn one_connection_serves_many_requests() {
    use std::io::{Read as _, Write as _};
    let service = slow();
    let mut stream = service.connect();
    let mut seen = Vec::new();
    for remaining in [999, 998, 997] {
        let body = r#"{"limit":"llm","key":"k"}"#;
        write!(
            stream,
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut chunk = [0; 4096];
        let wanted = format!("\"remaining\":{remaining}");
        while !String::from_utf8_lossy(&seen).contains(&wanted) {
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&chunk[..count]);
        }
    }
}

#[test]
fn a_client_that_has_said_all_it_has_to_say_is_answered() {
    let service = Service::start(&[]);
    for _ in 0..50 {
        let mut stream = service.connect();
        let body = r#"{"limit":"demo","key":"a"}"#;
        let length = body.len();
        write!(
            stream,
            "POST /v1/peek HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(Reply::read(&mut stream).status, 200);
    }
}

#[test]
fn a_name_and_a_bare_port_are_addresses_to_listen_on() {
    for (listen, is_loopback) in [("localhost:0", true), (":0", false), ("[::1]:0", true)] {
        let service = Service::start_on(listen, &["--health", "localhost:0"]);
        assert_eq!(service.get("/healthz").status, 200, "{listen}");
        let address: SocketAddr = service.said_address("http").parse().unwrap();
        assert_eq!(address.ip().is_loopback(), is_loopback, "{listen}");
        assert!(service.health().ip().is_loopback());
    }
    let file = File::new(
        "limits.yaml",
        "listeners: {http: localhost:0}\nlimits: {a: {policies: [gcra 1/s]}}",
    );
    let service = Service::start_configured(&["--config", file.path()]);
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn an_invalid_rust_log_was_ignored() {
    let start = |level: &str| {
        let mut command = binary();
        command.env("RUST_LOG", level).args(["serve", "--listen", "127.0.0.1:0"]);
        let mut service = Service::of(command);
        service.signal(rustix::process::Signal::INT);
        service.wait().1
    };
    let log = start("sluicegate=loud");
    assert!(log.contains("note: RUST_LOG is `sluicegate=loud`, which is ignored"), "{log}");
    assert!(!start("warn").contains("RUST_LOG") && !start("").contains("RUST_LOG"));
}

#[test]
fn an_address_in_use_is_named_with_what_to_do() {
    let service = Service::start(&[]);
    let address = service.address().to_string();
    let done = crate::support::sluicegate(&["serve", "--listen", &address]);
    assert_eq!(done.status, 2);
    assert!(
        done.stderr.starts_with(&format!("error: can't listen on {address}")),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("--listen"));
}
