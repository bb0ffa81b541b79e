//! Tests holds, over HTTP and on the command line.

use serde_json::{Value, json};
use sluicegate_testkit::servers::shared;

use crate::support::{Done, File, Reply, Service, own_store, sluicegate};

/// The deadline on a server is long, because the tests' machine may be busy.
const LIMITS: &str = r#"
limits:
  llm:
    policies: ["fixed_window 60/d as requests", "fixed_window 9000/d as tokens"]
    block: [mallory]
    deadline: 5s
  org: {policies: ["fixed_window 9000/d as tokens"], deadline: 5s}
  jobs: {policies: ["concurrency 2 hold 30s", "fixed_window 9/d as day"], deadline: 5s}
  mail: {policies: ["gcra 1/h burst 2"], deadline: 5s}
  queue: {policies: ["gcra 1/s burst 1"], deadline: 5s}
"#;

/// Returns a file of the limits for the embedded store, and one for a server.
fn files() -> [File; 2] {
    let on_server = own_store(shared().unwrap().url()) + LIMITS;
    [File::new("limits.yaml", LIMITS), File::new("limits.yaml", &on_server)]
}

/// Calls `test` with a service on either store.
fn on_each_store(test: impl Fn(&Service)) {
    for file in files() {
        test(&Service::start(&["--config", file.path()]));
    }
}

fn post(service: &Service, path: &str, body: &Value) -> Reply {
    service.post(path, body.to_string())
}

fn token(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["hold"]["token"].clone()
}

/// Returns the remaining units of each policy.
fn left(answer: &Value) -> Vec<u64> {
    let policies = answer["policies"].as_array().unwrap().iter();
    policies.map(|policy| policy["remaining"].as_u64().unwrap()).collect()
}

fn peek(service: &Service, limit: &str, key: &str) -> Vec<u64> {
    left(&post(service, "/v1/peek", &json!({"limit": limit, "key": key})).json())
}

#[test]
fn an_estimate_is_settled_for_what_was_used_and_once() {
    on_each_store(|service| {
        let held = post(
            service,
            "/v1/check",
            &json!({"limit": "llm", "key": "a", "cost": {"requests": 1, "tokens": 1000}, "hold": "30s"}),
        );
        let hold = &held.json()["hold"];
        assert_eq!(
            (&hold["expires_in_ms"], &hold["expires_in_us"]),
            (&json!(30_000), &json!(30_000_000))
        );
        let token = token(&held);
        for found in ["live", "settled"] {
            let body = json!({"hold": token, "used": {"tokens": 412}});
            let settled = post(service, "/v1/settle", &body);
            assert_eq!(settled.status, 200, "{}", settled.body);
            let answer = settled.json();
            assert_eq!((&answer["allowed"], &answer["found"]), (&json!(true), &json!(found)));
            assert_eq!(answer["limit"], "llm");
            assert_eq!(answer["policies"][1]["given_back"], 588);
            assert_eq!(answer["policies"][0].get("given_back"), None, "it isn't named");
            assert_eq!(left(&answer), [59, 8_588], "{found}");
        }
        let beyond = post(service, "/v1/cancel", &json!({"hold": token}));
        assert_eq!(beyond.json()["found"], "settled", "whatever that says was used");
        assert_eq!(peek(service, "llm", "a"), [59, 8_588]);
    });
}

#[test]
fn one_number_is_what_every_policy_used() {
    on_each_store(|service| {
        let body = json!({"limit": "llm", "key": "n", "cost": 5, "hold": "30s"});
        let token = token(&post(service, "/v1/check", &body));
        let settled = post(service, "/v1/settle", &json!({"hold": token, "used": 7}));
        assert_eq!(left(&settled.json()), [53, 8_993], "two more are charged");
    });
}

#[test]
fn a_charge_and_a_partial_grant_hold_what_they_took() {
    on_each_store(|service| {
        let charge =
            json!({"limit": "llm", "key": "c", "cost": {"tokens": 10_000}, "hold": "1min"});
        let charged = token(&post(service, "/v1/charge", &charge));
        let back = post(service, "/v1/cancel", &json!({"hold": charged})).json();
        assert_eq!(back["policies"][1]["given_back"], 10_000);
        let take = json!({"limit": "llm", "key": "c", "cost": {"tokens": 10_000}, "hold": "1min"});
        let taken = post(service, "/v1/take", &take);
        assert_eq!(taken.json()["granted"], 9_000);
        let settle = json!({"hold": token(&taken), "used": {"tokens": 1}});
        assert_eq!(left(&post(service, "/v1/settle", &settle).json()), [60, 8_999]);
    });
}

#[test]
fn what_is_in_flight_is_always_held_until_it_is_released() {
    on_each_store(|service| {
        let ask = json!({"limit": "jobs", "key": "a"});
        let [first, second] = [0, 1].map(|_| post(service, "/v1/check", &ask));
        assert_eq!(first.json()["hold"]["expires_in_ms"], 30_000, "as long as the limit says");
        let denied = post(service, "/v1/check", &ask);
        assert_eq!((denied.status, denied.json().get("hold")), (429, None));
        let released = post(service, "/v1/release", &json!({"hold": token(&first)}));
        assert_eq!((released.status, left(&released.json())), (200, vec![1, 7]), "{released:?}");
        let again = post(service, "/v1/release", &json!({"hold": token(&first)}));
        assert_eq!((again.status, &*again.error_code()), (404, "hold_expired"));
        let renew = json!({"hold": token(&second), "for": "10s"});
        let renewed = post(service, "/v1/renew", &renew);
        let hold = &renewed.json()["hold"];
        assert_eq!((&hold["expires_in_ms"], &hold["token"]), (&json!(10_000), &token(&second)));
        let too_long = json!({"hold": token(&second), "for": "1h"});
        let refused = post(service, "/v1/renew", &too_long);
        assert_eq!((refused.status, &*refused.error_code()), (400, "malformed"));
        let mut waiting = ask.clone();
        waiting["within"] = json!("0s");
        assert!(token(&post(service, "/v1/acquire", &waiting)).is_string());
        assert_eq!(post(service, "/v1/acquire", &waiting).status, 429);
    });
}

#[test]
fn several_limits_are_held_by_one_token() {
    on_each_store(|service| {
        let body = json!({"hold": "30s", "limits": [
            {"limit": "llm", "key": "a", "cost": {"tokens": 1000}},
            {"limit": "org", "key": "acme", "cost": 1000},
            {"limit": "jobs", "key": "a"},
        ]});
        let held = post(service, "/v1/check", &body);
        let settle = json!({"hold": token(&held), "used": {"tokens": 400}});
        let answer = post(service, "/v1/settle", &settle).json();
        assert_eq!(left(&answer), [60, 8_600, 8_600, 2, 8]);
        let names = answer["policies"].as_array().unwrap().iter();
        let names: Vec<_> = names.map(|policy| policy["limit_name"].as_str().unwrap()).collect();
        assert_eq!(names, ["llm", "llm", "org", "jobs", "jobs"]);
        let given = [1, 2].map(|index| answer["policies"][index]["given_back"].clone());
        assert_eq!(given, [600, 600], "each by its name");
    });
}

#[test]
fn an_id_of_the_clients_own_is_taken_once() {
    on_each_store(|service| {
        let id = "00112233445566778899aabbccddeeff";
        let body = json!({"limit": "org", "key": "k", "hold": {"for": "30s", "id": id}});
        assert_eq!(token(&post(service, "/v1/check", &body)), format!("1:{id}:org:6b"));
        let twice = post(service, "/v1/check", &body);
        assert_eq!((twice.status, &*twice.error_code()), (409, "conflict"));
        assert_eq!(peek(service, "org", "k"), [8_999]);
        let back = post(service, "/v1/cancel", &json!({"hold": format!("1:{id}:org:6b")}));
        assert_eq!(left(&back.json()), [9_000]);
    });
}

#[test]
fn a_reservation_is_cancelled_by_its_token_if_it_is_the_last_in_line() {
    on_each_store(|service| {
        let reserve = |key: &str| {
            post(
                service,
                "/v1/reserve",
                &json!({"limit": "mail", "key": key, "cost": 2, "within": "10min"}),
            )
        };
        let (now, denied) = (reserve("a"), reserve("a"));
        assert_eq!((now.status, now.json().get("wait_ms")), (200, None), "{}", now.body);
        assert!(now.field("ratelimit").is_some());
        assert_eq!((denied.status, denied.json().get("hold")), (429, None), "{}", denied.body);
        let cancelled = post(service, "/v1/cancel", &json!({"hold": token(&now)}));
        assert_eq!(cancelled.status, 200, "{}", cancelled.body);
        let answer = cancelled.json();
        assert_eq!(
            (&answer["allowed"], &answer["cancelled"], &answer["limit"]),
            (&json!(true), &json!(true), &json!("mail"))
        );
        assert_eq!(peek(service, "mail", "a"), [2]);
        let again = post(service, "/v1/cancel", &json!({"hold": token(&now)}));
        assert_eq!((again.status, &again.json()["cancelled"]), (200, &json!(false)));
        let settled = post(service, "/v1/settle", &json!({"hold": token(&now), "used": 0}));
        assert_eq!((settled.status, &*settled.error_code()), (400, "malformed"));

        let queued = || {
            post(
                service,
                "/v1/reserve",
                &json!({"limit": "queue", "key": "q", "cost": 1, "within": "10s"}),
            )
        };
        let [first, second, third] = [queued(), queued(), queued()];
        assert!(
            third.json()["wait_us"].as_u64().unwrap() > second.json()["wait_us"].as_u64().unwrap()
        );
        for (reply, comes_back) in [(&first, false), (&third, true), (&second, true)] {
            let answer = post(service, "/v1/cancel", &json!({"hold": token(reply)})).json();
            assert_eq!(answer["cancelled"], comes_back);
        }
    });
}

/// A client that could forge a receipt could write states.
#[test]
fn a_reservation_that_was_forged_is_none() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let body = json!({"limit": "mail", "key": "a", "within": "0s"});
    let theirs = token(&post(&service, "/v1/reserve", &body));
    let theirs = theirs.as_str().unwrap();
    let forged = theirs.replacen(":mail:61:", ":mail:62:", 1);
    assert_ne!(forged, theirs);
    let reply = post(&service, "/v1/cancel", &json!({"hold": forged}));
    assert_eq!((reply.status, &*reply.error_code()), (404, "hold_expired"));
    for bare in ["reservation:1:mail:61:-:0102", "1:mail:61:-:0102", "sealed:", "sealed:00"] {
        let reply = post(&service, "/v1/cancel", &json!({"hold": bare}));
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{bare}");
    }
    assert_eq!(peek(&service, "mail", "a"), [1]);
    assert_eq!(post(&service, "/v1/cancel", &json!({"hold": theirs})).json()["cancelled"], true);
}

#[test]
fn services_that_share_a_key_know_each_others_reservations() {
    let [_, file] = files();
    let with = |key: &[&str]| Service::start(&[&["--config", file.path()], key].concat());
    let key = "an example of a key of 32 bytes.";
    let (one, two, other) = (with(&["--token-key", key]), with(&["--token-key", key]), with(&[]));
    let body = json!({"limit": "mail", "key": "a", "within": "0s"});
    let token = token(&post(&one, "/v1/reserve", &body));
    let foreign = post(&other, "/v1/cancel", &json!({"hold": token}));
    assert_eq!((foreign.status, &*foreign.error_code()), (404, "hold_expired"));
    assert!(foreign.body.contains("--token-key"), "{}", foreign.body);
    assert_eq!(post(&two, "/v1/cancel", &json!({"hold": token})).json()["cancelled"], true);
    let short = sluicegate(&["serve", "--listen", "127.0.0.1:0", "--token-key", "short"]);
    assert_eq!(short.status, 2);
    assert!(short.stderr.contains("has 5 bytes: give at least 32"), "{}", short.stderr);
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let body = json!({"limit": "llm", "key": "a", "cost": 5, "hold": "30s"});
    let token = token(&post(&service, "/v1/check", &body));
    let unknown = format!("1:{}:llm:61", "0".repeat(32));
    for (path, body, status, code, words) in [
        ("settle", json!({"hold": token}), 400, "malformed", "missing field `used`"),
        ("settle", json!({"used": 1}), 400, "malformed", "missing field `hold`"),
        ("settle", json!({"hold": token, "used": -1}), 400, "malformed", "from 0 to"),
        ("settle", json!({"hold": token, "used": 1.5}), 400, "malformed", "from 0 to"),
        ("settle", json!({"hold": token, "used": 1_u64 << 53}), 400, "malformed", "from 0 to"),
        ("settle", json!({"hold": token, "used": {}}), 400, "malformed", "names no policy"),
        ("settle", json!({"hold": token, "used": {"tokens": -1}}), 400, "malformed", "from 0 to"),
        (
            "settle",
            json!({"hold": token, "used": {"tokens": 1_u64 << 53}}),
            400,
            "malformed",
            "from 0 to",
        ),
        (
            "settle",
            json!({"hold": token, "used": {"token": 1}}),
            400,
            "malformed",
            "its policies are requests, tokens",
        ),
        (
            "settle",
            json!({"hold": token, "used": 1, "for": "1s"}),
            400,
            "malformed",
            "unknown field `for`",
        ),
        ("cancel", json!({"hold": "?"}), 400, "malformed", "`hold`: not a hold token"),
        ("cancel", json!({"hold": 1}), 400, "malformed", "a string"),
        (
            "cancel",
            json!({"hold": "1:".to_owned() + &"0".repeat(20_000)}),
            400,
            "malformed",
            "too long",
        ),
        ("renew", json!({"hold": token}), 400, "malformed", "missing field `for`"),
        ("renew", json!({"hold": token, "for": "2d"}), 400, "malformed", "1ms to 1d"),
        ("renew", json!({"hold": token, "for": "30"}), 400, "malformed", "`for`"),
        ("settle", json!({"hold": unknown, "used": 0}), 404, "hold_expired", "hold has ended"),
        ("release", json!({"hold": unknown}), 404, "hold_expired", "hold has ended"),
        (
            "cancel",
            json!({"hold": unknown.replace(":llm:", ":none:")}),
            404,
            "unknown_limit",
            "none",
        ),
        ("check", json!({"limit": "llm", "key": "a", "hold": "2d"}), 400, "malformed", "1ms to 1d"),
        ("check", json!({"limit": "jobs", "key": "a", "hold": "31s"}), 400, "malformed", "to 30s"),
        (
            "check",
            json!({"limit": "llm", "key": "a", "hold": 30}),
            400,
            "malformed",
            "a length of time",
        ),
        (
            "peek",
            json!({"limit": "llm", "key": "a", "hold": "1s"}),
            400,
            "malformed",
            "only /v1/check",
        ),
        (
            "refund",
            json!({"limit": "llm", "key": "a", "hold": "1s"}),
            400,
            "malformed",
            "only /v1/check",
        ),
        (
            "reserve",
            json!({"limit": "mail", "key": "a", "within": "1s", "hold": "1s"}),
            400,
            "malformed",
            "only /v1/check",
        ),
        ("reserve", json!({"limit": "mail", "key": "a"}), 400, "malformed", "lacks `within`"),
        (
            "reserve",
            json!({"limit": "llm", "key": "a", "within": "1s"}),
            400,
            "unsupported",
            "can't reserve",
        ),
        (
            "check",
            json!({"limit": "llm", "key": "k".repeat(9_000), "hold": "1s"}),
            400,
            "malformed",
            "shorten the key",
        ),
        (
            "reserve",
            json!({"limit": "mail", "key": "k".repeat(9_000), "within": "1s"}),
            400,
            "malformed",
            "too long",
        ),
    ] {
        let reply = post(&service, &format!("/v1/{path}"), &body);
        let shown: String = format!("{path} {body}").chars().take(200).collect();
        assert_eq!((reply.status, &*reply.error_code()), (status, code), "{shown}: {}", reply.body);
        assert!(reply.body.contains(words), "{shown}: {}", reply.body);
    }
    assert_eq!(peek(&service, "llm", "a"), [55, 8_995]);
    assert_eq!(post(&service, "/v1/settle", &json!({"hold": token, "used": 0})).status, 200);
    let blocked = json!({"limit": "llm", "key": "mallory", "hold": "1s"});
    let blocked = post(&service, "/v1/check", &blocked);
    assert_eq!((blocked.status, blocked.json().get("hold")), (403, None));
}

/// Runs on an address other than loopback, where a charge needs the admin token.
#[test]
fn the_token_is_all_that_is_needed() {
    let file = File::new("limits.yaml", LIMITS);
    let service =
        Service::start_on("0.0.0.0:0", &["--config", file.path(), "--admin-token", "s3cret"]);
    let body = json!({"limit": "llm", "key": "a", "cost": 5, "hold": "30s"});
    let token = token(&post(&service, "/v1/check", &body));
    assert_eq!(post(&service, "/v1/charge", &body).status, 401);
    assert_eq!(post(&service, "/v1/renew", &json!({"hold": token, "for": "1s"})).status, 200);
    assert_eq!(post(&service, "/v1/settle", &json!({"hold": token, "used": 9})).status, 200);
    assert_eq!(peek(&service, "llm", "a"), [51, 8_991]);
}

/// A hold is settled under the configuration in force at that time.
#[test]
fn a_limit_that_changed_meanwhile_says_what_it_has_now() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let hold = |limit: &str| {
        let body = json!({"limit": limit, "key": "a", "cost": 5, "hold": "1min"});
        token(&post(&service, "/v1/check", &body))
    };
    let [llm, other, org] = ["llm", "llm", "org"].map(hold);
    file.replace("limits:\n  llm: {policies: [\"fixed_window 100/d as requests\"]}\n");
    service.signal(rustix::process::Signal::HUP);
    sluicegate_testkit::wait::until_seldom("the file is in force", || {
        let count = service.get("/v1/limits").json()["limits"].as_array().unwrap().len();
        if count == 1 { Ok(()) } else { Err(count) }
    });
    let gone = post(&service, "/v1/settle", &json!({"hold": org, "used": 0}));
    assert_eq!((gone.status, &*gone.error_code()), (404, "unknown_limit"), "{}", gone.body);
    let policy = post(&service, "/v1/settle", &json!({"hold": llm, "used": {"tokens": 1}}));
    assert_eq!((policy.status, &*policy.error_code()), (400, "malformed"), "{}", policy.body);
    assert!(policy.body.contains("its policies are requests"), "{}", policy.body);
    let settled = post(&service, "/v1/settle", &json!({"hold": llm, "used": {"requests": 1}}));
    assert_eq!(left(&settled.json()), [94], "{}", settled.body);
    let cancelled = post(&service, "/v1/cancel", &json!({"hold": other}));
    assert_eq!(left(&cancelled.json()), [99], "{}", cancelled.body);
}

/// Runs the command with the arguments that select limits and store, or the service.
fn run(verb: &str, to: &[&str], more: &[&str]) -> Done {
    sluicegate(&[&[verb], to, more].concat())
}

#[test]
fn the_command_line_has_the_same_verbs() {
    let [_, file] = files();
    let service = Service::start(&["--config", file.path()]);
    let url = format!("http://{}", service.address());
    for to in [["--config", file.path()], ["--server", url.as_str()]] {
        let key = &to[0][2..];
        let of = |limit: &'static str| ["--limit", limit, "--key", key];
        let check = |limit, more: &[&str]| {
            let done = run("check", &to, &[&of(limit)[..], &["--json"], more].concat());
            assert_eq!((done.status, &*done.stderr), (0, ""), "{done:?}");
            done.json()["hold"]["token"].as_str().unwrap().to_owned()
        };
        let by = |verb: &str, token: &str, more: &[&str]| {
            run(verb, &to, &[&["--hold", token], more].concat())
        };
        let token = check("llm", &["--cost", "tokens=1000", "--hold", "30s"]);
        let settled = by("settle", &token, &["--used", "tokens=412"]);
        assert_eq!((settled.status, &*settled.stderr), (0, ""), "{settled:?}");
        let lines: Vec<&str> = settled.stdout.lines().collect();
        assert!(
            lines[1].starts_with("settled  llm/tokens  588 units given back, 8588 of 9000 left"),
            "{lines:?}"
        );
        let again = by("settle", &token, &["--used", "tokens=412", "--json"]);
        assert_eq!((again.status, &again.json()["found"]), (0, &json!("settled")));
        let again = by("cancel", &token, &[]);
        assert!(again.stdout.starts_with("unchanged  llm  it was settled before"), "{again:?}");

        let token = check("jobs", &[]);
        let renewed = by("renew", &token, &["--for", "10s"]);
        let held = format!("held     for 10 s, token {token}");
        assert!(renewed.stdout.ends_with(&format!("{held}\n")), "{renewed:?}");
        let released = by("release", &token, &[]);
        assert!(
            released
                .stdout
                .starts_with("released  jobs/concurrency  1 unit given back, 2 of 2 left"),
            "{released:?}"
        );
        let gone = by("release", &token, &[]);
        assert_eq!((gone.status, &*gone.stdout), (1, ""), "{gone:?}");
        assert!(gone.stderr.starts_with("error: this token's hold has ended"), "{gone:?}");

        let within = [&of("mail")[..], &["--cost", "2", "--within", "1s", "--json"]].concat();
        let reserved = run("reserve", &to, &within);
        assert_eq!(reserved.status, 0, "{reserved:?}");
        let answer = reserved.json();
        let token = answer["hold"]["token"].as_str().unwrap();
        assert_eq!(answer["hold"]["expires_in_ms"], 60_000);
        assert_eq!(run("reserve", &to, &within).status, 1);
        let settled = by("settle", token, &["--used", "0"]);
        assert_eq!(settled.status, 2, "{settled:?}");
        let cancelled = by("cancel", token, &[]);
        assert_eq!(
            (cancelled.status, &*cancelled.stdout),
            (0, "cancelled  mail  its units came back\n")
        );
        assert_eq!(by("cancel", token, &[]).status, 1);

        let both = [
            &of("llm")[..],
            &["--cost", "tokens=1", "--limit", "org", "--key", key, "--cost", "7"],
        ]
        .concat();
        let checked = run("check", &to, &both);
        assert_eq!((checked.status, &*checked.stderr), (0, ""), "{checked:?}");
        assert!(checked.stdout.contains("allowed  org/tokens  8993 of 9000 left"), "{checked:?}");
        let charged = run("charge", &to, &both);
        assert!(charged.stdout.contains("unchanged  llm/requests  its cost is 0"), "{charged:?}");
        assert!(charged.stdout.contains("charged  org/tokens  8986 of 9000 left"), "{charged:?}");
        let taken = run("take", &to, &[&both[..], &["--json", "--hold", "1s"]].concat());
        assert!(taken.json()["hold"]["token"].is_string(), "{taken:?}");
        assert_eq!(taken.json()["policies"][2]["limit_name"], "org");
    }
}

#[test]
fn the_command_line_says_what_is_wrong_with_a_token() {
    let file = File::new("limits.yaml", LIMITS);
    let to = ["--config", file.path()];
    for (args, words) in [
        (&["cancel", "--hold", "?"][..], "--hold: not a hold token"),
        (&["cancel", "--hold", "reservation:?"], "--hold: not a receipt"),
        (&["cancel", "--hold", "sealed:00"], "--server asks"),
        (&["settle", "--hold", "x", "--used=-1"], "what was used must be a whole number"),
        (&["settle", "--hold", "x", "--used", "1", "--used", "2"], "--used N stands alone"),
        (&["settle", "--hold", "x"], "--used"),
        (&["renew", "--hold", "x"], "--for"),
        (&["check", "--limit", "llm", "--key", "a", "--hold", "2"], "--hold"),
        (
            &["check", "--limit", "llm", "--limit", "org", "--key", "a"],
            "a --key after each --limit",
        ),
    ] {
        let done = sluicegate(&[args, &to].concat());
        assert_eq!(done.status, 2, "{args:?}: {done:?}");
        assert!(done.stderr.contains(words), "{args:?}: {}", done.stderr);
    }
}
