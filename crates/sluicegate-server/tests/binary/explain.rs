//! Tests explanations of decisions, over HTTP and on the command line.

use serde_json::{Value, json};
use sluicegate_testkit::servers::shared;
use sluicegate_testkit::wait::until;

use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = r#"limits:
  api:
    policies:
      - "fixed_window 20/d"
      - "token_bucket 100/s as quick"
    deadline: 5s
    ban: 1000/min for 15min
    block: [mallory]
    allow: ["team-*"]
    overrides:
      - key: acme
        times: 10
  trial: {policies: ["gcra 1/h burst 5 shadow"], deadline: 5s}
  off: {policies: ["gcra 1/h"], enabled: false}
  mixed: {policies: ["gcra 1/h", "gcra 9/d shadow as more"]}
  address: {policies: ["gcra 1/h"], key: ip}
  tight: {policies: ["gcra 1/h"], on_store_failure: allow}
"#;

fn explain(service: &Service, body: &Value) -> Value {
    let reply = service.post("/v1/explain", body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn of_key(service: &Service, limit: &str, key: &str) -> Value {
    explain(service, &json!({"limit": limit, "key": key}))
}

/// Returns the only reason of a kind.
#[track_caller]
fn reason(explained: &Value, kind: &str) -> Value {
    let all = explained["because"].as_array().unwrap().iter();
    let found: Vec<&Value> = all.filter(|because| because["kind"] == kind).collect();
    let [one] = *found else { panic!("{kind}: {explained}") };
    one.clone()
}

#[track_caller]
fn text(because: &Value) -> &str {
    because["text"].as_str().unwrap()
}

fn place(because: &Value) -> (Value, Value) {
    (because["line"].clone(), because["column"].clone())
}

/// Returns the first reason about a policy.
fn policy(explained: &Value) -> Value {
    let mut all = explained["because"].as_array().unwrap().iter();
    all.find(|because| because["kind"] == "policy").unwrap().clone()
}

#[test]
fn a_denial_says_the_arithmetic_and_the_line_and_charges_nothing() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let spend = json!({"limit": "api", "key": "bob", "cost": {"fixed_window": 17}});
    assert_eq!(service.post("/v1/charge", spend.to_string()).status, 200);
    let ask = json!({"limit": "api", "key": "bob", "cost": 5});
    for _ in 0..9 {
        let explained = explain(&service, &ask);
        assert_eq!(explained["decision"]["allowed"], false);
        let because = policy(&explained);
        let words = "`fixed_window 20/d` has 3 of 20 units";
        assert!(text(&because).starts_with(words), "{because}");
        assert!(text(&because).contains("17 units are used in its window"), "{because}");
        assert!(text(&because).contains("costs 5; the window ends in "), "{because}");
        assert_eq!((&because["from"], place(&because)), (&json!("file"), (json!(4), json!(9))));
        assert_eq!(because["file"], file.path());
        let numbers = because["numbers"].as_array().unwrap();
        let number = |name: &str| numbers.iter().find(|number| number["name"] == name).unwrap();
        assert_eq!(
            (&number("limit")["value"], &number("limit")["line"]),
            (&json!("20"), &json!(4))
        );
        assert_eq!(number("cost")["from"], "request");
        assert!(text(&reason(&explained, "cost")).contains("5 under every policy"));
    }
    let never = explain(&service, &json!({"limit": "api", "key": "bob", "cost": 50}));
    assert!(text(&policy(&never)).contains("more than the 20 that it ever has"), "{never}");
    let quick = of_key(&service, "api", "new");
    let quick = quick["because"].as_array().unwrap().last().unwrap();
    assert_eq!((&quick["policy"], &quick["line"]), (&json!("quick"), &json!(5)));
    let burst = quick["numbers"].as_array().unwrap().iter().find(|it| it["name"] == "burst");
    assert!(burst.is_some(), "{quick}");
}

#[test]
fn lists_overrides_switches_and_shadows_are_reasons() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    for (key, list, line) in
        [("mallory", "`mallory` of `block`", 8), ("team-7", "`team-*` of `allow`", 9)]
    {
        let because = reason(&of_key(&service, "api", key), "list");
        assert!(text(&because).contains(list), "{because}");
        assert_eq!(because["line"], line);
    }
    let acme = of_key(&service, "api", "acme");
    let because = reason(&acme, "override");
    assert!(text(&because).contains("`acme` of `overrides`"), "{because}");
    assert_eq!((&because["line"], &policy(&acme)["line"]), (&json!(11), &json!(12)));
    assert!(text(&policy(&acme)).contains("has 200 of 200 units"), "{acme}");
    let off = reason(&of_key(&service, "off", "a"), "switch");
    assert!(text(&off).contains("`enabled` is false"), "{off}");
    assert_eq!(off["line"], 14);
    let trial = of_key(&service, "trial", "a");
    assert!(text(&policy(&trial)).contains("It is a shadow"), "{trial}");
    let canonical = reason(&of_key(&service, "address", "::ffff:192.0.2.1"), "key");
    assert!(text(&canonical).contains("as `192.0.2.1`"), "{canonical}");
    // Several limits in one check.
    let both = json!({"limits": [
        {"limit": "api", "key": "mallory"}, {"limit": "trial", "key": "a"}]});
    let both = explain(&service, &both);
    assert_eq!(reason(&both, "list")["limit"], "api");
    assert_eq!(both["decision"]["allowed"], false);
    let unknown = service.post("/v1/explain", r#"{"limit":"nobody","key":"a"}"#);
    assert_eq!((unknown.status, unknown.error_code().as_str()), (404, "unknown_limit"));

    let rollouts = service.get("/v1/limits").json();
    let rollouts: Vec<_> = rollouts["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| (limit["rollout"].clone(), limit["line"].clone()))
        .collect();
    let expected = [("enforced", 2), ("shadow", 13), ("off", 14), ("partly_shadow", 15)];
    assert_eq!(rollouts[..4], expected.map(|(rollout, line)| (json!(rollout), json!(line))));
}

#[test]
fn overrides_bans_and_pauses_in_a_server_are_reasons() {
    let file = File::new("limits.yaml", &(own_store(shared().unwrap().url()) + LIMITS));
    let service = Service::start(&["--config", file.path(), "--admin-token", "s3cret"]);
    let token = [("Authorization", "Bearer s3cret")];
    let send = |method: &str, path: &str, body: Value| {
        let reply = service.send(method, path, &token, body.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    };
    let ask = |key: &str| send("POST", "/v1/explain", json!({"limit": "api", "key": key}));
    let set = json!({"times": 3, "for": "2h", "note": "launch\u{7} day"});
    send("PUT", "/v1/limits/api/overrides/zed", set);
    let zed = ask("zed");
    let because = reason(&zed, "override");
    for words in
        ["says `times 3`", "by `admin`", "for another ", "`launch\\u{7} day`", "It decides."]
    {
        assert!(text(&because).contains(words), "{words}: {because}");
    }
    assert_eq!((&because["from"], &policy(&zed)["from"]), (&json!("override"), &json!("override")));
    send("POST", "/v1/ban", json!({"limit": "api", "key": "bad\n", "for": "1h"}));
    let because = reason(&ask("bad\n"), "ban");
    assert!(text(&because).contains("banned for another "), "{because}");
    assert_eq!(because["line"], 9, "that of `ban`");
    send("POST", "/v1/pause", json!({"limit": "api", "key": "slow", "for": "1h"}));
    assert!(text(&reason(&ask("slow"), "pause")).contains("paused for another "));
    // A command reads the same.
    let named = ["explain", "--config", file.path(), "--limit", "api", "--key", "zed"];
    let done = sluicegate(&named);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stdout.contains("says `times 3`"), "{}", done.stdout);
    let server = format!("http://{}", service.address());
    let named = ["explain", "--server", &server, "--admin-token", "s3cret", "--limit", "api"];
    let done = sluicegate(&[&named[..], &["--key", "mallory"]].concat());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stdout.contains(&format!("from {}:10:13", file.path())), "{}", done.stdout);
}

#[test]
fn a_failed_store_is_a_reason() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path(), "--store", "redis://127.0.0.1:1"]);
    let failed = of_key(&service, "tight", "a");
    assert_eq!(
        (&failed["decision"]["allowed"], &failed["decision"]["source"]),
        (&json!(true), &json!("fallback"))
    );
    let because = reason(&failed, "store");
    assert!(text(&because).contains("`on_store_failure: allow`"), "{because}");
    assert_eq!((&because["line"], &because["numbers"][0]["from"]), (&json!(17), &json!("default")));
}

#[test]
fn lines_that_move_are_followed_without_another_generation() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let generation = service.get("/v1/limits").json()["config"]["generation"].clone();
    let check = || service.post("/v1/check", r#"{"limit":"api","key":"bob"}"#).json();
    assert_eq!(check()["policies"][0]["remaining"], 19);
    file.replace(&format!("# One line,\n# and another.\n{LIMITS}"));
    until("the line", || {
        match reason(&of_key(&service, "api", "mallory"), "list")["line"].clone() {
            line if line == 10 => Ok(()),
            line => Err(line),
        }
    });
    assert_eq!(service.get("/v1/limits").json()["config"]["generation"], generation);
    assert_eq!(service.get("/v1/limits").json()["limits"][0]["line"], 4);
    assert_eq!(check()["policies"][0]["remaining"], 18);
}

#[test]
fn a_client_sees_only_its_limits() {
    let token = File::new("token", "s3cret");
    let client = format!("{{name: a, token_file: {}, may: [read], limits: [trial]}}", token.path());
    let file = File::new("limits.yaml", &format!("{LIMITS}clients: [{client}]\n"));
    let service = Service::start(&["--config", file.path()]);
    let ask = |body: Value| {
        let token = [("Authorization", "Bearer s3cret")];
        service.send("POST", "/v1/explain", &token, body.to_string().as_bytes())
    };
    assert_eq!(ask(json!({"limit": "trial", "key": "a"})).status, 200);
    let both = [json!({"limit": "trial", "key": "a"}), json!({"limit": "api", "key": "acme"})];
    let refused = ask(json!({"limits": both}));
    assert_eq!(refused.status, 403);
    assert!(!refused.body.contains("acme"), "{}", refused.body);
}
