//! Tests several limits in one decision.

use serde_json::{Value, json};
use sluicegate_testkit::servers::Cluster;

use crate::support::{File, Reply, Service};

const LIMITS: &str = r#"
limits:
  user: {policies: ["token_bucket 1/h burst 3"]}
  org: {policies: ["token_bucket 1/h burst 4", "fixed_window 1000/d as tokens"]}
  pool: {policies: ["fixed_window 9/d as day"]}
  listed: {policies: ["fixed_window 5/d"], allow: [vip], block: [mallory]}
"#;

fn start() -> Service {
    let file = File::new("limits.yaml", LIMITS);
    Service::start(&["--config", file.path()])
}

fn ask(service: &Service, verb: &str, limits: &Value) -> Reply {
    service.post(&format!("/v1/{verb}"), json!({"limits": limits}).to_string())
}

/// Returns the remaining units of each policy, with the names of limit and policy.
fn left(answer: &Value) -> Vec<(String, String, u64)> {
    let policies = answer["policies"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    policies
        .map(|policy| {
            let remaining = policy["remaining"].as_u64().unwrap();
            (text(&policy["limit_name"]), text(&policy["name"]), remaining)
        })
        .collect()
}

fn triples(all: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    all.iter().map(|(limit, policy, left)| ((*limit).into(), (*policy).into(), *left)).collect()
}

#[test]
fn all_are_charged_or_none() {
    let service = start();
    let both = json!([
        {"limit": "user", "key": "alice"},
        {"limit": "org", "key": "acme", "cost": {"tokens": 200}},
    ]);
    let first = ask(&service, "check", &both);
    assert_eq!(first.status, 200);
    let answer = first.json();
    assert_eq!((&answer["limit"], &answer["source"]), (&json!("user + org"), &json!("store")));
    assert_eq!(
        left(&answer),
        triples(&[("user", "token_bucket", 2), ("org", "token_bucket", 4), ("org", "tokens", 800)])
    );
    assert_eq!(answer["policies"][0]["limit"], 3, "the largest cost of a fresh key, as ever");
    for _ in 0..2 {
        assert_eq!(ask(&service, "check", &both).status, 200);
    }
    let denied = ask(&service, "check", &both);
    assert_eq!(denied.status, 429);
    let answer = denied.json();
    assert_eq!(answer["binding"], "token_bucket");
    assert_eq!(answer["binding_limit"], "user", "two policies have that name");
    let alone = service.post("/v1/peek", r#"{"limit":"org","key":"acme"}"#).json();
    assert_eq!(alone["policies"][1]["remaining"], 400, "the fourth took nothing of the other");
    assert_eq!(alone.get("binding_limit"), None);
    assert_eq!(alone["policies"][1].get("limit_name"), None);
}

#[test]
fn response_fields_tell_policies_of_one_name_apart() {
    let service = start();
    let all = json!([
        {"limit": "user", "key": "alice", "cost": 3},
        {"limit": "org", "key": "acme", "cost": {"token_bucket": 1, "tokens": 300}},
    ]);
    let reply = ask(&service, "check", &all);
    assert_eq!(
        reply.field("ratelimit-policy"),
        Some(
            r#""user/token_bucket";q=3;w=10800, "org/token_bucket";q=4;w=14400, "tokens";q=1000;w=86400"#
        )
    );
    let fields = reply.field("ratelimit").unwrap();
    assert!(
        fields.starts_with(
            r#""user/token_bucket";r=0;t=10800, "org/token_bucket";r=3;t=3600, "tokens";r=700;t="#
        ),
        "{fields}"
    );
    let denied = ask(&service, "check", &all);
    let retry = denied.json()["retry_after_ms"].as_u64().unwrap();
    assert_eq!(denied.field("retry-after"), Some(&*retry.div_ceil(1_000).to_string()));
    let peeked = ask(&service, "peek", &all);
    assert_eq!((peeked.status, peeked.field("ratelimit")), (200, None));
}

#[test]
fn the_cost_of_each_limit_is_in_fields_of_the_next_draft() {
    let file = File::new("limits.yaml", &format!("http: {{fields: draft-next}}{LIMITS}"));
    let service = Service::start(&["--config", file.path()]);
    let all = json!([
        {"limit": "listed", "key": "vip", "cost": 5},
        {"limit": "pool", "key": "p", "cost": 2},
        {"limit": "org", "key": "acme", "cost": {"tokens": 300}},
    ]);
    let reply = ask(&service, "check", &all);
    let fields = reply.field("ratelimit").unwrap();
    assert!(
        fields.starts_with(r#""day";a=7;"#),
        "who is on the allow list isn't counted: {fields}"
    );
    for cost in [";c=2, ", ";c=0, ", ";c=300"] {
        assert!(fields.contains(cost), "{cost} in {fields}");
    }
}

#[test]
fn lists_of_one_limit_have_the_same_form() {
    let service = start();
    let answer = ask(&service, "check", &json!([{"limit": "user", "key": "alice"}])).json();
    assert_eq!(answer["limit"], "user");
    assert_eq!(left(&answer), triples(&[("user", "token_bucket", 2)]));
}

#[test]
fn every_call_takes_several_limits() {
    let service = start();
    let two = json!([
        {"limit": "user", "key": "alice", "cost": 2},
        {"limit": "pool", "key": "p", "cost": 5},
    ]);
    let call = |verb: &str| ask(&service, verb, &two).json();
    let pairs =
        |answer: &Value| left(answer).into_iter().map(|(_, _, left)| left).collect::<Vec<_>>();
    assert_eq!(pairs(&call("peek")), [3, 9]);
    let taken = call("take");
    assert_eq!((&taken["granted"], pairs(&taken)), (&json!(2), vec![1, 7]), "the same of each");
    assert_eq!(pairs(&call("charge")), [0, 2], "one of them into debt");
    let refunded = call("refund");
    assert_eq!(pairs(&refunded), [1, 7]);
    let given_back = [0, 1].map(|index| refunded["policies"][index]["given_back"].clone());
    assert_eq!(given_back, [2, 5]);
    let reset = call("reset");
    assert_eq!((&reset["forgotten"], pairs(&reset)), (&json!(true), vec![3, 9]));
    let acquired = service.post("/v1/acquire", json!({"limits": two, "within": "1s"}).to_string());
    assert_eq!((acquired.status, pairs(&acquired.json())), (200, vec![1, 4]));
}

#[test]
fn a_key_on_a_list_concerns_its_limit() {
    let service = start();
    let with = |key: &str| {
        let limits = json!([{"limit": "listed", "key": key}, {"limit": "pool", "key": "p"}]);
        ask(&service, "check", &limits)
    };
    let allowed = with("vip").json();
    assert_eq!(left(&allowed), triples(&[("pool", "day", 8)]), "the other is counted");
    let blocked = with("mallory");
    assert_eq!((blocked.status, blocked.json()["policies"].clone()), (403, json!([])));
    let both = with("alice");
    assert_eq!(left(&both.json()), triples(&[("listed", "fixed_window", 4), ("pool", "day", 7)]));
}

/// Gates of several limits are cached, but a configuration change applies to them.
#[test]
fn limits_that_are_asked_together_follow_the_configuration() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let two = json!([{"limit": "user", "key": "alice"}, {"limit": "pool", "key": "p"}]);
    assert_eq!(ask(&service, "check", &two).json()["policies"][1]["limit"], 9);
    file.replace(&LIMITS.replace("fixed_window 9/d", "fixed_window 90/d"));
    service.signal(rustix::process::Signal::HUP);
    sluicegate_testkit::wait::until("the new limit", || {
        let answer = ask(&service, "peek", &two).json();
        if answer["policies"][1]["limit"] == 90 { Ok(()) } else { Err(answer) }
    });
    file.replace(&LIMITS.replace("  pool:", "  pond:"));
    service.signal(rustix::process::Signal::HUP);
    sluicegate_testkit::wait::until("the limit is gone", || {
        let reply = ask(&service, "peek", &two);
        if reply.status == 404 { Ok(()) } else { Err(reply) }
    });
}

/// Clients choose the combinations of limits.
#[test]
fn any_number_of_combinations_is_answered() {
    let names: Vec<String> = (0..20).map(|number| format!("l{number}")).collect();
    let limits: String = names
        .iter()
        .map(|name| format!("  {name}: {{policies: [gcra 1/s burst 1000]}}\n"))
        .collect();
    let file = File::new("limits.yaml", &format!("limits:\n{limits}"));
    let service = Service::start(&["--config", file.path()]);
    for one in &names {
        for two in names.iter().filter(|two| *two != one) {
            let both = json!([{"limit": one, "key": "k"}, {"limit": two, "key": "k"}]);
            let reply = ask(&service, "check", &both);
            assert_eq!(reply.status, 200);
            assert_eq!(reply.json()["limit"], format!("{one} + {two}"));
        }
    }
    let left = service.post("/v1/peek", r#"{"limit":"l0","key":"k"}"#).json();
    let left = left["policies"][0]["remaining"].as_u64().unwrap();
    assert!((962..=1000).contains(&left), "19 times as the first, 19 as the second: {left}");
}

#[test]
fn too_many_policies_in_all_are_too_many() {
    let policies = |limit: u32| {
        let policy = |number: u32| format!("gcra 1/s as p{limit}-{number}");
        (0..30).map(policy).collect::<Vec<_>>().join(", ")
    };
    let limit = |number: u32| format!("  l{number}: {{policies: [{}]}}\n", policies(number));
    let text = format!("limits:\n{}", (0..3).map(limit).collect::<String>());
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path()]);
    let of = |count: u32| {
        let one = |number| json!({"limit": format!("l{number}"), "key": "k"});
        ask(&service, "check", &(0..count).map(one).collect())
    };
    assert_eq!(of(2).status, 200);
    let reply = of(3);
    assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"));
    assert!(reply.body.contains("64"), "{}", reply.body);
}

/// Each subject may be on another node.
#[test]
fn subjects_in_several_slots_of_a_cluster_are_decided_all_or_nothing() {
    let cluster = Cluster::start().unwrap();
    let nodes = cluster.urls()[0].replace("redis://", "redis+cluster://");
    let limits = LIMITS.replace("\"]}", "\"], deadline: 5s}");
    let file = File::new("limits.yaml", &format!("store: \"{nodes}\"{limits}"));
    let service = Service::start(&["--config", file.path()]);
    let two = |user: &str| {
        let limits =
            json!([{"limit": "user", "key": user, "cost": 2}, {"limit": "pool", "key": "p"}]);
        ask(&service, "check", &limits)
    };
    for user in ["alice", "bob", "carol"] {
        assert_eq!(two(user).status, 200, "{user}");
        assert_eq!(two(user).status, 429, "{user}");
    }
    let left = service.post("/v1/peek", r#"{"limit":"pool","key":"p"}"#).json();
    assert_eq!(left["policies"][0]["remaining"], 6, "denials took nothing");
}
