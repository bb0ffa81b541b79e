//! Tests units that are charged unconditionally or granted in part.

use serde_json::{Value, json};

use crate::support::{File, Service};

const LIMITS: &str = r#"
limits:
  api: {policies: ["token_bucket 1/h burst 10"]}
  llm: {policies: ["fixed_window 10/d as requests", "fixed_window 1000/d as tokens"]}
  queue: {policies: ["shaper 3/s queue 9"]}
  listed: {policies: ["fixed_window 5/d cost 2"], allow: [vip], block: [mallory]}
"#;

fn start() -> Service {
    let file = File::new("limits.yaml", LIMITS);
    Service::start(&["--config", file.path()])
}

#[test]
fn a_charge_goes_into_debt_and_is_200() {
    let service = start();
    let charge = |cost: u64| {
        let body = json!({"limit": "api", "key": "a", "cost": cost}).to_string();
        service.post("/v1/charge", body)
    };
    let charged = charge(25);
    assert_eq!((charged.status, charged.field("ratelimit")), (200, None));
    let answer = charged.json();
    assert_eq!(
        (&answer["allowed"], &answer["policies"][0]["remaining"]),
        (&json!(true), &json!(0))
    );
    let hours = answer["policies"][0]["reset_after_us"].as_u64().unwrap() / 3_600_000_000;
    assert!((24..=25).contains(&hours), "{hours}");
    let denied = service.post("/v1/check", r#"{"limit":"api","key":"a"}"#);
    let retry = denied.json()["retry_after_us"].as_u64().unwrap();
    assert!(
        (54_000_000_000..=57_600_000_000).contains(&retry),
        "16 units until one is left: {retry}"
    );
    let body = r#"{"limit":"llm","key":"a","cost":{"tokens":300}}"#;
    let left = service.post("/v1/charge", body).json();
    let left = [0, 1].map(|index| left["policies"][index]["remaining"].clone());
    assert_eq!(left, [10, 700], "a map touches what it names");
    // A blocked key is charged for units that it used before. A key on the allow list isn't
    // counted.
    for (key, left) in [("mallory", json!(3)), ("vip", Value::Null)] {
        let body = json!({"limit": "listed", "key": key}).to_string();
        let answer = service.post("/v1/charge", body);
        assert_eq!(
            (answer.status, &answer.json()["policies"][0]["remaining"]),
            (200, &left),
            "{key}"
        );
    }
}

#[test]
fn as_much_is_granted_as_there_is() {
    let service = start();
    let take = |cost: u64| {
        service.post("/v1/take", json!({"limit": "api", "key": "a", "cost": cost}).to_string())
    };
    let granted = take(7);
    assert_eq!((granted.status, granted.json()["granted"].clone()), (200, json!(7)));
    let rest = take(7);
    assert_eq!((rest.status, rest.json()["granted"].clone()), (200, json!(3)));
    assert_eq!(rest.json()["policies"][0]["remaining"], 0);
    let fields = rest.field("ratelimit").unwrap();
    assert!(fields.starts_with(r#""token_bucket";r=0;t="#), "{fields}");
    let nothing = take(7);
    assert_eq!((nothing.status, nothing.json()["granted"].clone()), (429, json!(0)));
    assert_eq!(nothing.json()["allowed"], false);
    let retry = nothing.json()["retry_after_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&retry), "until there is one: {retry}");
    assert_eq!(nothing.field("retry-after"), Some(&*retry.div_ceil(1_000).to_string()));
    assert_eq!(
        service.post("/v1/check", r#"{"limit":"api","key":"a"}"#).json().get("granted"),
        None
    );
}

#[test]
fn a_grant_that_nothing_counts_is_of_the_whole_cost() {
    let service = start();
    let take = |key: &str, cost: &Value| {
        let mut body = json!({"limit": "listed", "key": key});
        if !cost.is_null() {
            body["cost"] = cost.clone();
        }
        let reply = service.post("/v1/take", body.to_string());
        (reply.status, reply.json()["granted"].clone())
    };
    assert_eq!(take("vip", &json!(700)), (200, json!(700)));
    assert_eq!(take("vip", &Value::Null), (200, json!(2)), "the policy's own");
    assert_eq!(take("mallory", &json!(700)), (403, json!(0)));
}

/// Milliseconds are rounded up, so waiting for them is long enough; microseconds are exact.
#[test]
fn every_number_of_milliseconds_has_its_microseconds() {
    fn check(value: &Value, seen: &mut usize) {
        let members = match value {
            Value::Array(items) => return items.iter().for_each(|item| check(item, seen)),
            Value::Object(members) => members,
            _ => return,
        };
        for (name, value) in members {
            check(value, seen);
            let Some(name) = name.strip_suffix("_ms") else { continue };
            let micros = &members[&format!("{name}_us")];
            let expected = micros.as_u64().map(|micros| micros.div_ceil(1_000));
            assert_eq!(value.as_u64(), expected, "{name}: {value} and {micros}");
            *seen += 1;
        }
    }
    let service = start();
    let mut seen = 0;
    for (verb, body) in [
        ("check", r#"{"limit":"queue","key":"a"}"#),
        ("check", r#"{"limit":"queue","key":"a"}"#),
        ("charge", r#"{"limit":"api","key":"a","cost":13}"#),
        ("check", r#"{"limit":"api","key":"a"}"#),
        ("check", r#"{"limit":"api","key":"a","cost":11}"#),
        ("take", r#"{"limit":"llm","key":"a"}"#),
        ("refund", r#"{"limit":"llm","key":"a"}"#),
        ("reset", r#"{"limit":"llm","key":"a"}"#),
    ] {
        check(&service.post(&format!("/v1/{verb}"), body).json(), &mut seen);
    }
    for path in ["/v1/limits", "/v1/recent"] {
        check(&service.get(path).json(), &mut seen);
    }
    assert!(seen > 30, "{seen}");
    let waiting = service.post("/v1/check", r#"{"limit":"queue","key":"a"}"#).json();
    let micros = waiting["wait_us"].as_u64().unwrap();
    assert!((1..=666_667).contains(&micros), "{waiting}");
    assert_eq!(waiting["policies"][0]["wait_us"], micros);
}

#[test]
fn what_is_granted_or_waited_for_is_among_the_newest_decisions() {
    let service = start();
    for (verb, more) in [("take", ""), ("acquire", r#","within":"1s""#), ("charge", "")] {
        let body = format!(r#"{{"limit":"api","key":"{verb}"{more}}}"#);
        assert_eq!(service.post(&format!("/v1/{verb}"), body).status, 200);
    }
    let recent = service.get("/v1/recent").json()["recent"].clone();
    let keys: Vec<_> =
        recent.as_array().unwrap().iter().map(|entry| entry["key"].clone()).collect();
    assert_eq!(keys, ["acquire", "take"]);
    let metrics = service.get("/metrics").body;
    let line = r#"sluicegate_decisions_total{limit="api",policy="",outcome="allowed"} 2"#;
    assert!(metrics.contains(line), "{metrics}");
}
