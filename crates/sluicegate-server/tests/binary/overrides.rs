//! Tests overrides at run time, over HTTP and on the command line.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_testkit::servers::{fresh_prefix, shared};
use tokio::time::Instant;

use crate::support::{File, Reply, Service, own_store, sluicegate};

const LIMITS: &str = r#"
limits:
  api: {policies: ["fixed_window 10/d"], deadline: 5s, block: [foe]}
  other: {policies: ["fixed_window 10/d"], deadline: 5s}
"#;

/// Returns a file with these limits in a store of their own on a server.
fn on_server(limits: &str) -> File {
    File::new("limits.yaml", &(own_store(shared().unwrap().url()) + limits))
}

fn put(service: &Service, path: &str, body: &Value) -> Reply {
    service.send("PUT", path, &[], body.to_string().as_bytes())
}

fn left(service: &Service, key: &str) -> Value {
    service.call("check", "api", key, &json!({})).json()["policies"][0]["remaining"].clone()
}

#[test]
fn a_customer_gets_more_for_two_hours() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let path = "/v1/limits/api/overrides/acme";
    assert_eq!(service.get(path).error_code(), "no_override");
    let set = put(&service, path, &json!({"times": 10, "for": "2h", "note": "launch <day>"}));
    assert_eq!(set.status, 200, "{}", set.body);
    let entry = set.json();
    assert_eq!(
        (&entry["limit"], &entry["key"], &entry["times"]),
        (&json!("api"), &json!("acme"), &json!(10))
    );
    assert_eq!(
        (&entry["durable"], &entry["note"], &entry["by"]),
        (&json!(false), &json!("launch <day>"), &Value::Null)
    );
    assert!(
        entry["ends_in_ms"].as_u64().is_some_and(|ends| (7_000_000..=7_200_000).contains(&ends)),
        "{entry}"
    );
    assert_eq!(left(&service, "acme"), 99);
    assert_eq!(left(&service, "else"), 9);
    assert_eq!(service.get(path).json()["times"], 10);

    let listed = service.get("/v1/limits/api/overrides").json();
    assert_eq!((listed["overrides"].as_array().unwrap().len(), &listed["next"]), (1, &Value::Null));
    let audit = service.get("/v1/audit").json();
    assert_eq!(audit["audit"][0]["to"], json!({"times": 10}));
    assert_eq!(audit["audit"][0]["lasts_ms"], 7_200_000);
    let cleared = service.send("DELETE", path, &[], b"");
    assert_eq!((cleared.status, cleared.body.as_str()), (204, ""));
    assert_eq!(service.send("DELETE", path, &[], b"").error_code(), "no_override");
    assert_eq!(left(&service, "acme"), 8);
    assert_eq!(service.get("/v1/audit").json()["audit"][0]["to"], Value::Null);
}

#[test]
fn the_whole_limit_gets_other_numbers() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let path = "/v1/limits/api/override";
    let set = put(&service, path, &json!({"policies": ["fixed_window 3/d"]}));
    assert_eq!((set.status, &set.json()["key"]), (200, &Value::Null), "{}", set.body);
    assert_eq!(left(&service, "acme"), 2);
    put(&service, "/v1/limits/api/overrides/acme", &json!({"times": 0.5}));
    assert_eq!(left(&service, "acme"), 3, "half of the file's");
    put(&service, path, &json!({"block": true}));
    assert_eq!(service.call("check", "api", "else", &json!({})).status, 403);
    assert_eq!(service.send("DELETE", path, &[], b"").status, 204);
    assert_eq!(left(&service, "else"), 9);
}

#[test]
fn any_key_is_named_by_its_escapes() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    for (escaped, key) in [
        ("a%2Fb", Some("a/b")),
        ("a/b%3Fc", Some("a/b?c")),
        ("%3Cscript%3E%0A", Some("<script>\n")),
        ("%E2%80%AEevil", Some("\u{202e}evil")),
        ("%00%FF", None),
    ] {
        let path = format!("/v1/limits/api/overrides/{escaped}");
        let set = put(&service, &path, &json!({"times": 2}));
        if escaped == "a/b%3Fc" {
            assert_eq!(set.status, 404, "a slash in a key needs an escape: {}", set.body);
            continue;
        }
        assert_eq!((set.status, set.json()["key"].as_str()), (200, key), "{escaped}: {}", set.body);
        if let Some(key) = key {
            assert_eq!(left(&service, key), 19, "{escaped}");
        }
        assert_eq!(service.send("DELETE", &path, &[], b"").status, 204, "{escaped}");
    }
    for number in 0..7 {
        put(&service, &format!("/v1/limits/api/overrides/k%2F{number}"), &json!({"allow": true}));
    }
    let (mut keys, mut next) = (Vec::new(), String::new());
    loop {
        let page = service.get(&format!("/v1/limits/api/overrides?count=3{next}")).json();
        let page_keys =
            page["overrides"].as_array().unwrap().iter().map(|it| it["key"].to_string());
        keys.extend(page_keys);
        let Some(after) = page["next"].as_str() else { break };
        next = format!("&after={}", after.replace('%', "%25"));
    }
    let expected: Vec<String> = (0..7).map(|number| format!("\"k/{number}\"")).collect();
    assert_eq!(keys, expected);
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let path = "/v1/limits/api/overrides/acme";
    for (path, body, status, words) in [
        ("/v1/limits/apis/overrides/acme", json!({"times": 2}), 404, "did you mean `api`"),
        (path, json!({"policies": ["gcra 5/d as fixed_window"]}), 400, "can change only numbers"),
        (path, json!({"policies": []}), 400, "`policies` is empty"),
        (path, json!({"policies": ["nonsense"]}), 400, "policies[0]"),
        (path, json!({"times": 0}), 400, "times"),
        (path, json!({"times": "2"}), 400, "times"),
        (path, json!({"times": 0.0001}), 400, "is not a whole number"),
        (path, json!({"allow": false}), 400, "exactly one"),
        (path, json!({"allow": true, "block": true}), 400, "exactly one"),
        (path, json!({}), 400, "exactly one"),
        (path, json!({"times": 2, "until": "1h"}), 400, "unknown field"),
        (path, json!({"times": 2, "for": "0s"}), 400, "can't last"),
        (path, json!({"times": 2, "for": "tomorrow"}), 400, "`for`"),
        (path, json!({"times": 2, "note": "n".repeat(2_000)}), 400, "the note has 2000 bytes"),
        ("/v1/limits/api/overrides/%zz", json!({"times": 2}), 400, "two digits"),
        ("/v1/limits/%FF/override", json!({"times": 2}), 400, "isn't UTF-8"),
    ] {
        let reply = put(&service, path, &body);
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
        assert!(reply.body.contains(words), "{body}: {}", reply.body);
    }
    assert_eq!(service.get("/v1/audit").json(), json!({"audit": [], "next": null}));
    assert_eq!(service.get("/v1/limits/apis/overrides").error_code(), "unknown_limit");
    assert_eq!(service.get("/v1/limits/apis/override").error_code(), "unknown_limit");
}

#[test]
fn clients_change_only_their_own_limits_and_are_named() {
    let clients = "clients:
  - {name: maria, token_env: MARIA, may: [admin], limits: [ap*]}
  - {name: reader, token_env: READER, may: [read]}
";
    let file = File::new("limits.yaml", &format!("{LIMITS}{clients}"));
    let service =
        Service::start_with(&[("MARIA", "m"), ("READER", "r")], &["--config", file.path()]);
    let ask = |method: &str, path: &str, token: &str| {
        let token = format!("Bearer {token}");
        let body: &[u8] = if method == "PUT" { br#"{"times":2}"# } else { b"" };
        service.send(method, path, &[("Authorization", &token)], body)
    };
    assert_eq!(ask("PUT", "/v1/limits/api/override", "m").json()["by"], "maria");
    assert_eq!(ask("PUT", "/v1/limits/other/override", "m").status, 403);
    assert_eq!(ask("PUT", "/v1/limits/api/override", "r").status, 403);
    let unknown = ask("PUT", "/v1/limits/ap/override", "m");
    assert!(
        unknown.body.contains("GET /v1/limits lists them"),
        "names of others: {}",
        unknown.body
    );
    assert_eq!(ask("GET", "/v1/limits/api/override", "r").status, 200);
    assert_eq!(ask("DELETE", "/v1/limits/api/override", "r").status, 403);
    // The name of a limit can't say a key too.
    assert_eq!(ask("GET", "/v1/limits/api%00acme/override", "m").error_code(), "unknown_limit");
    assert_eq!(ask("DELETE", "/v1/limits/api%00acme/override", "m").error_code(), "unknown_limit");
    assert_eq!(ask("GET", "/v1/audit", "r").json()["audit"][0]["by"], "maria");
    assert_eq!(service.get("/v1/audit").status, 401);
}

#[test]
fn the_command_line_sets_and_ends_overrides_at_a_store_and_at_a_service() {
    let file = on_server(LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let url = format!("http://{}", service.address());
    for to in [["--config", file.path()], ["--server", &url]] {
        let run = |args: &[&str]| sluicegate(&[&["override"], args, &to].concat());
        let of = ["--limit", "api", "--key", "acme \u{1b}[31m"];
        let none = run(&[&["get"], &of[..]].concat());
        assert_eq!((none.status, none.stdout.as_str()), (1, ""), "{none:?}");
        let set =
            run(&[&["set"], &of[..], &["--times", "10", "--for", "2h", "--note", "launch\nday"]]
                .concat());
        assert_eq!(set.status, 0, "{set:?}");
        assert!(set.stdout.contains("times 10") && set.stdout.contains("ends in"), "{set:?}");
        assert!(!set.stdout.contains('\u{1b}') && set.stdout.lines().count() == 1, "{set:?}");
        let found = run(&[&["get", "--json"], &of[..]].concat());
        assert_eq!(found.json()["times"], 10, "{found:?}");
        let listed = run(&["list", "--limit", "api"]);
        assert!(listed.stdout.starts_with("api  acme"), "{listed:?}");
        let whole = run(&["set", "--limit", "api", "--policy", "fixed_window 3/d"]);
        assert!(
            whole.stdout.contains("the whole limit  fixed_window 3/d  without an end"),
            "{whole:?}"
        );
        let list = || run(&["list", "--limit", "api"]).stdout;
        let both = list();
        assert!(both.starts_with(&whole.stdout) && both.contains("api  acme"), "{both}");
        let cleared = run(&[&["clear", "--json"], &of[..]].concat());
        assert_eq!((cleared.status, cleared.json()), (0, json!({"cleared": true})));
        assert_eq!(run(&[&["clear"], &of[..]].concat()).status, 1);
        assert_eq!(list(), whole.stdout, "only the whole limit has one");
        let cleared = run(&["clear", "--limit", "api"]);
        assert_eq!((cleared.status, cleared.stdout.as_str()), (0, "cleared\n"), "{cleared:?}");
        assert_eq!(list(), "neither the limit nor a key has an override\n");
        let audit = run(&["audit", "--count", "3"]);
        assert!(audit.stdout.contains("times 10 -> no override"), "{audit:?}");
        assert!(audit.stdout.contains("more     --after "), "{audit:?}");
        let wrong = run(&["set", "--limit", "apis", "--allow"]);
        assert_eq!(wrong.status, 2, "{wrong:?}");
        assert!(wrong.stderr.contains("did you mean `api`"), "{wrong:?}");
        assert_eq!(run(&["set", "--limit", "api"]).status, 2, "it says nothing");
    }
    let memory = sluicegate(&["override", "list", "--limit", "demo"]);
    assert!(memory.stderr.contains("name a running service"), "{memory:?}");
}

/// The promised bound of 2 s, and 6 s for the machine.
///
/// Other tests keep its 2 cores busy, so a process or its server may wait for seconds until it runs. A process that
/// never follows, or only every 10 s, fails.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(8);

/// Waits until the service decides by an override of ten times the numbers.
#[track_caller]
fn follows(service: &Service, key: &str, since: Instant) -> Duration {
    let peek =
        || service.call("peek", "api", key, &json!({})).json()["policies"][0]["limit"].clone();
    while peek() != 100 {
        assert!(since.elapsed() < FOLLOWS_WITHIN, "it doesn't follow");
    }
    let took = since.elapsed();
    assert!(took < FOLLOWS_WITHIN, "it follows after {took:?}");
    took
}

/// Each process decides by an override in time; a paused one does so in time after it continues.
#[test]
fn a_fleet_follows_and_so_does_a_process_that_was_paused() {
    let file = on_server(LIMITS);
    let fleet: Vec<Service> = (0..8).map(|_| Service::start(&["--config", file.path()])).collect();
    let (paused, others) = fleet.split_last().unwrap();
    paused.signal(Signal::STOP);
    let set = put(&others[0], "/v1/limits/api/overrides/acme", &json!({"times": 10}));
    assert_eq!((set.status, &set.json()["durable"]), (200, &json!(true)), "{}", set.body);
    let since = Instant::now();
    assert_eq!(left(&others[0], "acme"), 99, "the process that set it, at once");
    let mut took: Vec<Duration> =
        others.iter().map(|service| follows(service, "acme", since)).collect();
    took.sort_unstable();
    paused.signal(Signal::CONT);
    let woken = follows(paused, "acme", Instant::now());
    println!("followed after {took:?}, woken after {woken:?}");
    drop(fleet);
    let later = Service::start(&["--config", file.path()]);
    assert_eq!(left(&later, "acme"), 98, "it is there after a restart");
}

#[test]
fn one_more_override_than_a_store_keeps_is_refused() {
    let (server, prefix) = (shared().unwrap(), fresh_prefix("over"));
    // The 100,000 settings, without a call for each.
    let fill = r#"for i = 1, 100000 do redis.call('HSET', KEYS[1], 'api\0key-' .. i, '1 0 {"times":"2"}') end"#;
    server.cli(&["EVAL", fill, "1", &format!("{prefix}:{{settings}}")]).unwrap();
    let store = format!("store: \"{}\"\nredis: {{prefix: \"{prefix}\"}}\n", server.url());
    let file = File::new("limits.yaml", &(store + LIMITS));
    let service = Service::start(&["--config", file.path()]);
    let refused = put(&service, "/v1/limits/api/overrides/one-more", &json!({"times": 2}));
    assert_eq!((refused.status, &*refused.error_code()), (400, "malformed"), "{}", refused.body);
    assert!(
        refused.body.contains("the store has 100000 settings, which is the maximum: remove some"),
        "{}",
        refused.body
    );
    assert_eq!(left(&service, "one-more"), 9);
    // An existing override can be replaced. After the end of one, another can be set.
    let path = "/v1/limits/api/overrides/key-100000";
    assert_eq!(put(&service, path, &json!({"times": 3})).status, 200);
    assert_eq!(left(&service, "key-100000"), 29);
    assert_eq!(service.send("DELETE", path, &[], b"").status, 204);
    let set = put(&service, "/v1/limits/api/overrides/one-more", &json!({"times": 2}));
    assert_eq!(set.status, 200, "{}", set.body);
}

#[test]
fn a_store_that_is_away_is_said_and_what_is_known_stays() {
    let file = on_server(LIMITS);
    let service = Service::start(&["--config", file.path()]);
    put(&service, "/v1/limits/api/overrides/acme", &json!({"block": true}));
    let away = File::new(
        "limits.yaml",
        &format!(
            "store: \"redis://127.0.0.1:1\"\n{}",
            LIMITS.replace("deadline: 5s", "deadline: 100ms")
        ),
    );
    let without = Service::start(&["--config", away.path(), "--ready-without-store"]);
    let refused = put(&without, "/v1/limits/api/overrides/acme", &json!({"times": 2}));
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(without.get("/v1/audit").status, 503);
    assert_eq!(service.call("check", "api", "acme", &json!({})).status, 403);
}
