//! Tests limits whose policies come with requests.

use serde_json::{Value, json};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until;

use crate::support::{Client, File, Reply, Service, with_fields};

const LIMITS: &str = "
limits_in_requests: true
limits:
  other: {policies: [gcra 1/h burst 5]}
  plan: {policies: [gcra 1/h burst 1], block: [mallory]}
";

fn start() -> Service {
    let file = File::new("limits.yaml", LIMITS);
    Service::start(&["--config", file.path()])
}

/// Returns a request for a limit with these policies.
fn ask(limit: &str, policies: &[&str]) -> Value {
    json!({"limit": limit, "key": "acme", "policies": policies})
}

fn call(service: &Service, path: &str, body: &Value) -> Reply {
    service.post(path, body.to_string())
}

/// Returns the remainder of the first policy after a check.
fn remaining(service: &Service, body: &Value) -> Value {
    let reply = call(service, "/v1/check", body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["policies"][0]["remaining"].clone()
}

#[test]
fn numbers_that_change_keep_what_was_consumed() {
    let service = start();
    let of = |spec: &str| ask("tier", &[spec]);
    assert_eq!(remaining(&service, &of("token_bucket 1/h burst 3")), 2);
    assert_eq!(remaining(&service, &of("token_bucket 1/h burst 3")), 1);
    assert_eq!(remaining(&service, &of("token_bucket 1/h burst 200")), 197);
    assert_eq!(remaining(&service, &of("token_bucket  1/h   burst 200")), 196, "other text");
    let denied = call(&service, "/v1/check", &of("token_bucket 1/h burst 3"));
    assert_eq!((denied.status, &denied.json()["limit"]), (429, &json!("tier")));
    assert!(denied.field("ratelimit-policy").is_some());
    assert_eq!(remaining(&service, &of("token_bucket 1/h burst 9 as mine")), 8, "another name");
    assert_eq!(remaining(&service, &ask("tier2", &["token_bucket 1/h burst 3"])), 2);
    let listed = service.get("/v1/limits").body;
    assert!(!listed.contains("tier"), "{listed}");
    // Without policies it is unknown.
    let unknown = call(&service, "/v1/check", &json!({"limit": "tier", "key": "acme"}));
    assert_eq!((unknown.status, unknown.error_code()), (404, "unknown_limit".to_owned()));
}

#[test]
fn the_file_has_the_other_settings_of_a_limit_that_it_names() {
    let service = start();
    let plan = ask("plan", &["gcra 1/h burst 7"]);
    assert_eq!(remaining(&service, &plan), 6);
    let own = json!({"limit": "plan", "key": "acme"});
    assert_eq!(call(&service, "/v1/check", &own).status, 429, "the same units, and its numbers");
    let blocked = with_fields(plan, &json!({"key": "mallory"}));
    assert_eq!(call(&service, "/v1/check", &blocked).status, 403);
}

#[test]
fn every_call_on_a_key_takes_policies() {
    let service = start();
    let ask = |more: Value| with_fields(ask("tier", &["token_bucket 1/h burst 10"]), &more);
    for (path, body, words) in [
        ("/v1/check", ask(json!({"cost": 2})), r#""remaining":8"#),
        ("/v1/peek", ask(json!({})), r#""remaining":8"#),
        ("/v1/take", ask(json!({"cost": 3})), r#""granted":3"#),
        ("/v1/reserve", ask(json!({"within": "0s"})), r#""remaining":4"#),
        ("/v1/acquire", ask(json!({"within": "1s"})), r#""remaining":3"#),
        ("/v1/charge", ask(json!({"cost": 2})), r#""remaining":1"#),
        ("/v1/refund", ask(json!({"cost": 3})), r#""given_back":3"#),
        ("/v1/pause", ask(json!({"for": "1h"})), r#""limit":"tier""#),
        ("/v1/resume", ask(json!({})), r#""forgotten":true"#),
        ("/v1/reset", ask(json!({})), r#""forgotten":true"#),
    ] {
        let reply = call(&service, path, &body);
        assert!(reply.status == 200 && reply.body.contains(words), "{path}: {}", reply.body);
    }
    let ban = call(&service, "/v1/ban", &ask(json!({"for": "1h"})));
    assert_eq!((ban.status, ban.error_code()), (400, "unsupported".to_owned()), "it has no `ban`");
}

#[test]
fn holds_are_settled_with_the_policies_of_their_limits() {
    let service = start();
    let specs = ["fixed_window 100/h as tokens", "concurrency 2 hold 30s"];
    let policies = json!({"tier": specs});
    let held = || {
        let body =
            with_fields(ask("tier", &specs), &json!({"cost": {"tokens": 10, "concurrency": 1}}));
        let answer = call(&service, "/v1/check", &body).json();
        answer["hold"]["token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let token = held();
    let without = call(&service, "/v1/release", &json!({"hold": token}));
    assert_eq!((without.status, without.error_code()), (404, "unknown_limit".to_owned()));
    let with = |more: Value| with_fields(json!({"hold": token, "policies": policies}), &more);
    for (path, body, words) in [
        ("/v1/renew", with(json!({"for": "20s"})), r#""found":"live""#),
        ("/v1/settle", with(json!({"used": {"tokens": 4}})), r#""given_back":6"#),
    ] {
        let reply = call(&service, path, &body);
        assert!(reply.status == 200 && reply.body.contains(words), "{path}: {}", reply.body);
    }
    for path in ["/v1/cancel", "/v1/release"] {
        let body = json!({"hold": held(), "policies": policies});
        assert_eq!(call(&service, path, &body).status, 200, "{path}");
    }
    let other = json!({"hold": held(), "policies": {"tier": specs, "more": specs}});
    let reply = call(&service, "/v1/release", &other);
    assert!(reply.status == 400 && reply.body.contains("limit `more`"), "{}", reply.body);
    let path = "/v1/holders?limit=tier&key=acme&policies=fixed_window+100/h+as+tokens,concurrency+2+hold+30s";
    let listed = service.get(path).json();
    let id = listed["holders"][0]["hold"].as_str().unwrap_or_else(|| panic!("{listed}"));
    let revoke = with_fields(ask("tier", &specs), &json!({"hold": id}));
    assert_eq!(call(&service, "/v1/revoke", &revoke).status, 200);
    assert_eq!(service.get(path).json()["holders"], json!([]));
    let shaper = ["shaper 1/min queue 9"];
    let reserve = with_fields(ask("line", &shaper), &json!({"within": "10min"}));
    let token = call(&service, "/v1/reserve", &reserve).json()["hold"]["token"].clone();
    let cancel = json!({"hold": token, "policies": {"line": shaper}});
    let reply = call(&service, "/v1/cancel", &cancel);
    assert!(reply.body.contains(r#""cancelled":true"#), "{}", reply.body);
}

#[test]
fn limits_with_and_without_policies_are_one_decision() {
    let service = start();
    let both = |burst: u64| {
        json!({"limits": [
            {"limit": "other", "key": "a"},
            {"limit": "tier", "key": "b", "policies": [format!("gcra 1/h burst {burst}")]},
        ]})
    };
    let left = || {
        let peek = call(&service, "/v1/peek", &json!({"limit": "other", "key": "a"})).json();
        peek["policies"][0]["remaining"].clone()
    };
    assert_eq!(call(&service, "/v1/check", &both(1)).status, 200);
    assert_eq!(call(&service, "/v1/check", &both(1)).status, 429);
    assert_eq!(left(), 4, "the denied one took nothing");
    assert_eq!(call(&service, "/v1/check", &both(3)).status, 200);
    assert_eq!((left(), call(&service, "/v1/check", &both(1)).status), (json!(3), 429));
    let held = with_fields(both(5), &json!({"hold": "30s"}));
    let token = call(&service, "/v1/check", &held).json()["hold"]["token"].clone();
    let cancel = json!({"hold": token, "policies": {"tier": ["gcra 1/h burst 5"]}});
    assert_eq!(call(&service, "/v1/cancel", &cancel).status, 200);
    assert_eq!(left(), 3);
}

#[test]
fn without_the_setting_the_answer_says_what_to_set() {
    let file = File::new("limits.yaml", &LIMITS.replace("requests: true", "requests: false"));
    let service = Service::start(&["--config", file.path()]);
    for limit in ["tier", "other"] {
        let reply = call(&service, "/v1/check", &ask(limit, &["gcra 1/h"]));
        assert_eq!((reply.status, reply.error_code()), (400, "unsupported".to_owned()));
        assert!(reply.body.contains("`limits_in_requests: true`"), "{}", reply.body);
    }
    let becomes = |status: u16| {
        until(&status.to_string(), || {
            let reply = call(&service, "/v1/peek", &ask("tier", &["gcra 1/h"]));
            if reply.status == status { Ok(()) } else { Err(reply) }
        });
    };
    file.replace(LIMITS);
    becomes(200);
    file.replace(&LIMITS.replace("requests: true", "requests: false"));
    becomes(400);
}

#[test]
fn policies_that_form_no_limit_are_refused() {
    let service = start();
    let many = |count: usize| {
        let specs: Vec<String> =
            (0..count).map(|number| format!("gcra 1/h as p{number}")).collect();
        json!({"limit": "tier", "key": "a", "policies": specs})
    };
    assert_eq!(call(&service, "/v1/check", &many(64)).status, 200);
    let of = |policies: Value| json!({"limit": "tier", "key": "a", "policies": policies});
    let named = |limit: &str| json!({"limit": limit, "key": "a", "policies": ["gcra 1/h"]});
    let short = json!({"limit": "tier", "key": "a", "policies": vec!["a"; 10_000]});
    for (body, words) in [
        (of(json!([])), "`policies` is empty"),
        (of(json!(["gcra 1/h", "gcra 5/m"])), "`policies[1]`: `m` is ambiguous"),
        (of(json!(["gcra 1/h brust 3"])), "did you mean `burst`"),
        (of(json!(["gcra 1/h\u{0}"])), "`policies[0]`"),
        (of(json!([&"gcra 1/h ".repeat(1_000)])), "`policies[0]`"),
        (of(json!(["gcra 1/h as a", "gcra 2/h as a"])), "`a`"),
        (of(json!("gcra 1/h")), "a sequence"),
        (of(json!([1])), "a string"),
        (of(json!(null)), "null"),
        (of(json!({"tier": ["gcra 1/h"]})), "a sequence"),
        (many(65), "has 65 entries"),
        (short, "has 10000 entries"),
        (named("a b"), "not a limit name"),
        (named(""), "not a limit name"),
        (named(&"x".repeat(1_000)), "not a limit name"),
        (named("tier\u{0}"), "not a limit name"),
    ] {
        let reply = call(&service, "/v1/check", &body);
        assert_eq!(reply.status, 400, "{words}: {}", reply.body);
        assert!(reply.body.contains(words), "no `{words}` in {}", reply.body);
        assert!(reply.body.len() < 1_000, "{}", reply.body);
    }
    let wide = json!({"limits": (0..2).map(|number| {
        with_fields(many(33), &json!({"limit": format!("l{number}")}))
    }).collect::<Vec<_>>()});
    assert_eq!(call(&service, "/v1/check", &wide).status, 400, "66 policies together");
    let large = json!({"limit": "tier", "key": "a", "policies": vec!["gcra 1/h burst 5"; 10_000]});
    assert_eq!(call(&service, "/v1/check", &large).status, 413);
    let fixed = call(
        &service,
        "/v1/release",
        &json!({"hold": format!("1:{}:tier:61", "0".repeat(32)), "policies": ["gcra 1/h"]}),
    );
    assert_eq!(fixed.status, 400, "{}", fixed.body);
}

/// Clients choose the names, so none becomes a label, and few limits are open at the same time.
#[test]
fn very_many_limits_are_forgotten_and_count_together() {
    let service = start();
    let mut client = Client::connect(service.address()).unwrap();
    let mut check = |number: usize, burst: u64| {
        let spec = format!("gcra 1/h burst {burst}");
        let body = ask(&format!("attack-{number}"), &[&spec]).to_string();
        let reply = client.post("/v1/check", &body).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["policies"][0]["remaining"].clone()
    };
    for number in 0..6_000 {
        assert_eq!(check(number, 2), 1);
    }
    assert_eq!(check(0, 2), 0, "it was closed, and nothing that it counted is lost");
    let page = service.get("/metrics").body;
    assert!(!page.contains("attack"), "{page}");
    let line = r#"sluicegate_decisions_total{limit="other",policy="",outcome="allowed"} 6001"#;
    assert!(page.contains(line), "{page}");
}

#[test]
fn names_in_requests_count_for_the_rights_of_a_client() {
    let token = File::new("token", "shop-token");
    let client =
        format!("{{name: shop, token_file: {}, may: [check], limits: [shop-*]}}", token.path());
    let file = File::new("limits.yaml", &format!("{LIMITS}\nclients: [{client}]"));
    let service = Service::start(&["--config", file.path()]);
    let status = |body: &Value| {
        let field = ("Authorization", "Bearer shop-token");
        service.send("POST", "/v1/check", &[field], body.to_string().as_bytes()).status
    };
    assert_eq!(status(&ask("shop-a", &["gcra 1/h"])), 200);
    assert_eq!(status(&ask("plan", &["gcra 1/h"])), 403);
    assert_eq!(status(&ask("tier", &["gcra 1/h"])), 403);
    assert_eq!(status(&ask("shop-jobs", &["concurrency 1 hold 30s"])), 403, "it may not hold");
    let both = json!({"limits": [ask("shop-b", &["gcra 1/h"]), ask("tier", &["gcra 1/h"])]});
    assert_eq!(status(&both), 403);
    assert_eq!(status(&ask("shop-b", &["gcra 1/h"])), 200, "it took nothing");
}

#[test]
fn instances_share_limits_of_requests_by_their_names() {
    let server = Server::start().unwrap();
    let text = format!("store: \"{}\"\n{LIMITS}", server.url());
    let file = File::new("limits.yaml", &text);
    let instance = || Service::start(&["--config", file.path()]);
    let (one, two) = (instance(), instance());
    let of = |burst: u64| ask("tier", &[&format!("token_bucket 1/h burst {burst}")]);
    assert_eq!(remaining(&one, &of(10)), 9);
    assert_eq!(remaining(&two, &of(10)), 8);
    assert_eq!(remaining(&one, &of(5)), 2);
    drop(one);
    assert_eq!(remaining(&instance(), &of(5)), 1);
}
