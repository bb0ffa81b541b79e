//! Tests simulations, over HTTP and on the command line.

use serde_json::{Value, json};
use sluicegate_testkit::wait::until;

use crate::support::{File, Service, sluicegate};

const LIMITS: &str = r#"limits:
  login:
    policies: ["fixed_window 5/d"]
    block: [mallory]
    allow: ["team-*"]
    overrides: [{key: acme, times: 2}]
  mail: {policies: ["fixed_window 100/d"]}
  jobs: {policies: ["concurrency 5 hold 30s"]}
"#;

/// Makes this number of checks of a key.
fn check(service: &Service, limit: &str, key: &str, count: usize) {
    for _ in 0..count {
        let reply = service.call("check", limit, key, &json!({}));
        assert!(matches!(reply.status, 200 | 403 | 429), "{}", reply.body);
    }
}

fn ask(service: &Service, body: &Value) -> Value {
    let reply = service.post("/v1/simulate", body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn remaining(service: &Service, key: &str) -> Value {
    service.call("peek", "login", key, &json!({})).json()["policies"][0]["remaining"].clone()
}

fn sums(limit: &Value) -> [u64; 6] {
    ["requests", "allowed", "denied", "was_denied", "newly_denied", "newly_allowed"]
        .map(|name| limit[name].as_u64().unwrap())
}

#[test]
fn other_policies_are_tried_exactly_and_nothing_is_charged() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    for (key, count) in [("alice", 7), ("bob", 3), ("acme", 4), ("mallory", 2), ("team-1", 6)] {
        check(&service, "login", key, count);
    }
    check(&service, "mail", "alice", 3);
    let denials = service.get("/v1/recent").json()["next"].clone();
    for _ in 0..3 {
        let stricter = ask(&service, &json!({"limit": "login", "policies": ["fixed_window 2/d"]}));
        assert_eq!((&stricter["from"], &stricter["decisions"]), (&json!("recorder"), &json!(22)));
        let login = &stricter["limits"][0];
        // Denied are 5 of alice, 2 of them then. Denied are 1 of bob, and 2 of mallory as then. acme has an override of its own.
        assert_eq!(sums(login), [22, 14, 8, 4, 4, 0], "{login}");
        let keys: Vec<_> = login["keys"].as_array().unwrap().iter().collect();
        let of = |key: &Value| (key["key"].clone(), key["newly_denied"].as_u64().unwrap());
        let found: Vec<_> = keys.into_iter().map(of).collect();
        let expected = [("alice", 3), ("bob", 1), ("mallory", 0)];
        assert_eq!(found, expected.map(|(key, count)| (json!(key), count)));
        let timeline = &login["timeline"];
        for (name, sum) in [("denied", 8), ("newly_denied", 4), ("was_denied", 4)] {
            let steps = timeline[name].as_array().unwrap();
            let total: u64 = steps.iter().map(|step| step.as_u64().unwrap()).sum();
            assert!(total == sum && steps.len() <= 60, "{timeline}");
        }
    }
    let looser = ask(&service, &json!({"limit": "login", "policies": ["fixed_window 9/d"]}));
    assert_eq!(sums(&looser["limits"][0]), [22, 20, 2, 4, 0, 2]);
    assert_eq!(remaining(&service, "bob"), 2, "nothing was charged");
    assert_eq!(service.get("/v1/recent").json()["next"], denials, "nothing was decided");
}

#[test]
fn a_file_is_tried_with_its_lists_and_overrides_and_those_at_run_time() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    for (key, count) in [("alice", 4), ("mallory", 2), ("team-1", 3), ("vip", 4)] {
        check(&service, "login", key, count);
    }
    check(&service, "mail", "alice", 2);
    let set = service.send("PUT", "/v1/limits/login/overrides/vip", &[], br#"{"allow":true}"#);
    assert_eq!(set.status, 200, "{}", set.body);
    let next = "limits:\n  login: {policies: [fixed_window 2/d], block: [team-1]}\n  \
                mail: {policies: [fixed_window 1/d], enabled: false}\n\
                clients: [{name: a, token_file: /does/not/exist, may: [read]}]\n";
    let found = ask(&service, &json!({"config": next}));
    let limits = found["limits"].as_array().unwrap();
    // alice 2 of 4, mallory none of 2, team-1 all 3, vip none by its override.
    assert_eq!((limits.len(), sums(&limits[0])), (2, [13, 8, 5, 2, 5, 2]), "{found}");
    assert_eq!(sums(&limits[1]), [2, 2, 0, 0, 0, 0], "it is off");
    let one = ask(&service, &json!({"config": next, "limit": "mail"}));
    assert_eq!((one["limits"].as_array().unwrap().len(), &one["decisions"]), (1, &json!(2)));
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    for (body, status, words) in [
        (json!({"limit": "login", "policies": ["gcra 5/m"]}), 400, "policies[0]: `m` is ambiguous"),
        (json!({"limit": "login", "policies": ["gcra 5/m"]}), 400, "\n  gcra 5/m\n         ^"),
        (json!({"limit": "login", "policies": []}), 400, "1 to "),
        (json!({"limit": "jobs", "policies": ["concurrency 2 hold 30s"]}), 400, "in flight"),
        (json!({"limit": "nobody", "policies": ["gcra 5/min"]}), 404, "nobody"),
        (
            json!({"config": "limits: {login: {policies: [gcra 5/m]}}"}),
            400,
            "config:1:36: limits.login",
        ),
        (
            json!({"config": "limits: {a: {policies: [gcra 5/min], block_file: /etc/passwd}}"}),
            400,
            "without other files",
        ),
        (json!({"limit": "login"}), 400, "`policies`"),
        (json!({"limit": "login", "policies": ["gcra 5/min"], "since": "x"}), 400, "`since`"),
        (
            json!({"limit": "login", "policies": ["gcra 5/min"], "from": "log"}),
            400,
            "decision_log.file",
        ),
    ] {
        let reply = service.post("/v1/simulate", body.to_string());
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            reply.status == status && message.contains(words),
            "{} {body}: {message}",
            reply.status
        );
    }
    let off = Service::start(&["--recorder-size", "0"]);
    let reply = off.post("/v1/simulate", r#"{"limit":"demo","policies":["gcra 1/s"]}"#);
    assert_eq!((reply.status, reply.error_code().as_str()), (400, "unsupported"));
}

#[test]
fn a_file_with_very_many_limits_fits_and_a_larger_one_is_refused() {
    let service = Service::start(&[]);
    let limit = |number: u32| {
        format!(
            "  tenant-{number}: {{policies: [\"token_bucket 1000/min burst 50000\"], key: user}}\n"
        )
    };
    let file = |count: u32| format!("limits:\n{}", (0..count).map(limit).collect::<String>());
    let found = ask(&service, &json!({"config": file(10_000)}));
    assert_eq!(found["limits"].as_array().unwrap().len(), 10_000);
    let refused = service.post("/v1/simulate", json!({"config": file(60_000)}).to_string());
    assert_eq!((refused.status, refused.error_code().as_str()), (413, "too_large"));
    assert!(refused.body.contains("larger than 4194304 bytes"), "{}", refused.body);
}

#[test]
fn a_client_simulates_what_it_may_see() {
    let token = File::new("token", "s3cret");
    let weak = File::new("token", "w3ak");
    let clients = format!(
        "clients:\n  - {{name: a, token_file: {}, may: [read], limits: [login]}}\n  - {{name: b, token_file: {}, may: [check]}}\n",
        token.path(),
        weak.path()
    );
    let file = File::new("limits.yaml", &format!("{LIMITS}{clients}"));
    let service = Service::start(&["--config", file.path()]);
    let with = |token: &str, body: &Value| {
        let field = format!("Bearer {token}");
        let fields = [("Authorization", field.as_str())];
        service.send("POST", "/v1/simulate", &fields, body.to_string().as_bytes())
    };
    let of = |limit: &str| json!({"limit": limit, "policies": ["gcra 1/s"]});
    assert_eq!(with("s3cret", &of("login")).status, 200);
    assert_eq!(with("s3cret", &of("mail")).status, 403);
    assert_eq!(with("w3ak", &of("login")).status, 403);
    assert_eq!(service.post("/v1/simulate", of("login").to_string()).status, 401);
    let whole = with("s3cret", &json!({"config": LIMITS})).json();
    let names: Vec<_> = whole["limits"].as_array().unwrap().iter().map(|it| &it["limit"]).collect();
    assert_eq!(names, ["login"]);
}

#[test]
fn a_log_is_simulated_and_a_sample_only_with_scale() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let log = log.to_str().unwrap();
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path(), "--decision-log", log]);
    check(&service, "login", "alice", 7);
    check(&service, "mail", "alice", 2);
    let body = json!({"limit": "login", "policies": ["fixed_window 2/d"], "from": "log"});
    let found = until("the lines", || {
        let reply = service.post("/v1/simulate", body.to_string());
        if reply.status != 200 {
            return Err(reply.body);
        }
        let found = reply.json();
        if found["decisions"] == 7 { Ok(found) } else { Err(found.to_string()) }
    });
    assert_eq!(sums(&found["limits"][0]), [7, 2, 5, 2, 3, 0], "{found}");
    let args = ["simulate", "--log", log, "--limit", "login", "--policy", "fixed_window 2/d"];
    let local = sluicegate(&[&args[..], &["--json"]].concat());
    assert_eq!(sums(&local.json()["limits"][0]), [7, 2, 5, 2, 3, 0], "{local:?}");
    let whole = sluicegate(&["simulate", "--log", log, "--config", file.path(), "--json"]).json();
    assert_eq!(sums(&whole["limits"][0]), [7, 5, 2, 2, 0, 0]);

    let url = format!("http://{}", service.address());
    let remote = ["simulate", "--server", &url, "--limit", "login", "--policy", "fixed_window 2/d"];
    let shown = sluicegate(&remote);
    assert!(
        shown.status == 0 && shown.stdout.contains("login: 5 of 7 denied, 2 then; 3 newly denied"),
        "{shown:?}"
    );
    let shown = sluicegate(&["simulate", "--server", &url, "--config", file.path()]);
    assert!(shown.status == 0 && shown.stdout.contains("login: 2 of 7 denied"), "{shown:?}");
    let wrong = sluicegate(&["simulate", "--log", log, "--limit", "login", "--policy", "gcra 5/m"]);
    assert!(wrong.status == 2 && wrong.stderr.contains("ambiguous"), "{wrong:?}");

    let sample: String = std::fs::read_to_string(log)
        .unwrap()
        .lines()
        .map(|line| format!("{},\"sample\":0.5}}\n", line.strip_suffix('}').unwrap()))
        .collect();
    let sampled = File::new("sampled", &sample);
    let args = [
        "simulate",
        "--log",
        sampled.path(),
        "--limit",
        "login",
        "--policy",
        "fixed_window 2/d",
        "--json",
    ];
    let refused = sluicegate(&args);
    assert!(refused.status == 2 && refused.stderr.contains("--scale"), "{refused:?}");
    // Each of the 5 allowed ones stands for two.
    let estimate = sluicegate(&[&args[..], &["--scale"]].concat()).json();
    assert_eq!(sums(&estimate["limits"][0]), [12, 2, 10, 2, 8, 0], "{estimate}");
    assert_eq!(estimate["estimated"], true);
}
