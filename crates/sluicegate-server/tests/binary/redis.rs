//! Tests with a Redis or Valkey server, and with an unreachable one.

use std::process::Stdio;

use serde_json::json;
use sluicegate_testkit::servers::{
    self, FakeClock, GarbageServer, Misbehaviour, Server, fresh_prefix, shared,
};
use sluicegate_testkit::wait::until;

use crate::conformance;
use crate::support::{File, Service, binary, own_store, sluicegate};

fn config(store: &str, more: &str) -> File {
    let prefix = fresh_prefix("bin");
    File::new(
        "limits.yaml",
        &format!(
            "store: \"{store}\"\nredis: {{prefix: \"{prefix}\"}}\nlimits:\n  \
             demo: {{policies: [\"token_bucket 1/h burst 3\"], deadline: 5s{more}}}\n"
        ),
    )
}

#[test]
fn the_service_and_the_command_line_share_what_is_left() {
    let server = shared().unwrap();
    let file = config(&server.url(), "");
    let first = Service::start(&["--config", file.path()]);
    let second = Service::start(&["--config", file.path()]);
    let body = r#"{"limit":"demo","key":"a"}"#;
    assert_eq!(first.post("/v1/check", body).json()["policies"][0]["remaining"], 2);
    assert_eq!(second.post("/v1/check", body).json()["policies"][0]["remaining"], 1);
    let check = || {
        sluicegate(&["check", "--config", file.path(), "--limit", "demo", "--key", "a", "--json"])
    };
    assert_eq!((check().status, check().status), (0, 1));
    assert_eq!(first.post("/v1/check", body).status, 429);
    assert_eq!(
        sluicegate(&["reset", "--config", file.path(), "--limit", "demo", "--key", "a"]).status,
        0
    );
    assert_eq!(first.post("/v1/check", body).status, 200);
    assert_eq!(first.get("/readyz").status, 200);
}

#[test]
fn a_refund_and_a_reset_say_what_they_did() {
    let limits = "limits: {api: {policies: [gcra 1/w burst 9, sliding_log 100/8w as log]}}";
    let text = own_store(shared().unwrap().url()) + limits;
    let file = File::new("limits.yaml", &text);
    let run = |verb: &str, cost: &[&str]| {
        let named = [verb, "--config", file.path(), "--limit", "api", "--key", "a"];
        let done = sluicegate(&[&named, cost].concat());
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{verb}");
        done.stdout
    };
    let nothing = run("refund", &[]);
    let lines: Vec<&str> = nothing.lines().collect();
    assert_eq!(lines[0], "unchanged  api/gcra  nothing had been taken, 9 of 9 left, like new");
    assert!(lines[1].starts_with("unchanged  api/log  nothing had been taken, 100 of 100 left"));
    run("check", &["--cost", "3"]);
    let one = run("refund", &["--cost", "log=1"]);
    let lines: Vec<&str> = one.lines().collect();
    assert_eq!(lines[0], "unchanged  api/gcra  its cost is 0, 6 of 9 left, like new in 21 d");
    assert!(lines[1].starts_with("refunded  api/log  1 unit given back, 98 of 100 left"));
    let rest = run("refund", &["--cost", "5"]);
    assert!(rest.starts_with("refunded  api/gcra  3 units given back, 9 of 9 left"), "{rest}");
    assert!(rest.contains("\nrefunded  api/log  2 units given back, 100 of 100 left"), "{rest}");
    run("check", &[]);
    assert!(run("reset", &[]).starts_with("forgotten  api/gcra  9 of 9 left, like new\n"));
    let again = run("reset", &[]);
    assert!(again.starts_with("unchanged  api/gcra  the key had no state, 9 of 9 left"));
}

#[test]
fn a_state_that_can_t_be_read_is_told_to_everybody_who_watches() {
    let server = Server::start().unwrap();
    let file = config(&server.url(), "");
    let mut service = Service::start(&["--config", file.path()]);
    let check = || service.post("/v1/check", r#"{"limit":"demo","key":"a"}"#);
    let damage = || {
        let keys = server.cli(&["KEYS", "*{a}"]).unwrap();
        server.cli(&["SET", keys.trim(), "garbage"]).unwrap();
    };
    assert_eq!(check().status, 200);
    for _ in 0..3 {
        damage();
        assert_eq!(check().json()["policies"][0]["remaining"], 2);
    }
    let metrics = service.get("/metrics").body;
    assert!(metrics.contains("sluicegate_state_notes_total{note=\"discarded\"} 3"), "{metrics}");
    damage();
    let args = ["check", "--config", file.path(), "--limit", "demo", "--key", "a"];
    assert!(sluicegate(&args).stderr.contains("note: a stored state could not be read"));
    service.signal(rustix::process::Signal::TERM);
    let log = service.wait().1;
    let told: Vec<_> = log.lines().filter(|line| line.contains("counted as absent")).collect();
    assert!(
        matches!(told[..], [first, second] if first.ends_with("1 so far") && second.ends_with("2 so far")),
        "{log}"
    );
}

#[test]
fn the_samples_pass_and_leave_no_key() {
    let server = Server::start().unwrap();
    let done = conformance::run(&["--store", &server.url()]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{done:?}");
    assert_eq!(done.stdout, format!("{} passed, 0 failed\n", conformance::cases()));
    assert_eq!(server.cli(&["DBSIZE"]).unwrap(), "0");
}

#[test]
fn a_store_that_is_killed_midway_ends_the_cases_with_exit_3() {
    let mut server = Server::start().unwrap();
    let file = File::new("cases.jsonl", &conformance::samples_times(2_000));
    let mut command = binary();
    command.args(["conformance", file.path(), "--store", &server.url()]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let calls = || {
        let told = server.cli(&["INFO", "commandstats"]).unwrap();
        let (_, rest) = told.split_once("cmdstat_evalsha:calls=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    };
    until("500 decisions", || calls().filter(|calls| *calls >= 500).ok_or_else(calls));
    server.kill().unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b""[..]), "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
}

/// An address where no server listens.
const NOWHERE: &str = "redis://127.0.0.1:1";

#[test]
fn a_store_that_is_not_there_is_503_and_exit_3_and_no_reason_not_to_start() {
    let file = config(NOWHERE, "");
    let service = Service::start(&["--config", file.path()]);
    for call in ["/v1/check", "/v1/peek", "/v1/refund", "/v1/reset"] {
        let reply = service.post(call, r#"{"limit":"demo","key":"a"}"#);
        assert_eq!(
            (reply.status, reply.error_code().as_str()),
            (503, "store_unavailable"),
            "{call}"
        );
        assert_eq!(service.post(call, r#"{"limit":"demo","key":"a","cost":0}"#).status, 400);
        assert_eq!(service.post(call, r#"{"limit":"nobody","key":"a"}"#).status, 404);
    }
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(service.get("/readyz").error_code(), "store_unavailable");
    assert_eq!(service.get("/readyz").status, 503);
    let metrics = service.get("/metrics").body;
    assert!(
        metrics.contains(r#"sluicegate_store_errors_total{kind="unavailable"} 4"#),
        "{metrics}"
    );
    for verb in ["check", "peek", "refund", "reset"] {
        let done = sluicegate(&[verb, "--store", NOWHERE, "--limit", "demo", "--key", "a"]);
        assert_eq!((done.status, done.stdout.as_str()), (3, ""), "{verb}");
        assert!(done.stderr.starts_with("error: "), "{}", done.stderr);
    }
    assert_eq!(conformance::run(&["--store", NOWHERE]).status, 3);
}

#[test]
fn on_store_failure_decides_and_says_so() {
    for (answer, status, exit) in [("allow", 200, 0), ("deny", 503, 3)] {
        let file = config(NOWHERE, &format!(", on_store_failure: {answer}"));
        let service = Service::start(&["--config", file.path()]);
        let reply = service.post("/v1/check", r#"{"limit":"demo","key":"a"}"#);
        assert_eq!(reply.status, status);
        if status == 200 {
            let expected = json!({
                "allowed": true, "limit": "demo", "source": "fallback", "binding": null,
                "retry_after_ms": 0, "retry_after_us": 0, "policies": [],
            });
            assert_eq!(reply.json(), expected);
        } else {
            assert_eq!(reply.error_code(), "store_failed_closed");
        }
        assert_eq!((reply.field("ratelimit"), reply.field("retry-after")), (None, None));
        assert_eq!(reply.field("ratelimit-policy"), Some(r#""token_bucket";q=3;w=10800"#));
        assert_eq!(service.post("/v1/reset", r#"{"limit":"demo","key":"a"}"#).status, 503);
        let done = sluicegate(&["check", "--config", file.path(), "--limit", "demo", "--key", "a"]);
        assert_eq!(done.status, exit);
        let said = done.stdout + &done.stderr;
        assert!(said.contains("the store failed"), "{said}");
    }
}

#[test]
fn a_store_that_is_away_is_stood_in_for_by_the_share_of_this_process() {
    let file = config(NOWHERE, ", on_store_failure: local");
    let text = std::fs::read_to_string(file.path()).unwrap();
    let lacking = sluicegate(&["config", "check", file.path()]);
    assert_eq!(lacking.status, 2);
    assert!(lacking.stderr.contains("add `fallback: {processes: 4}` at the top"), "{lacking:?}");
    let file = File::new("limits.yaml", &format!("{text}\nfallback: {{processes: 3}}\n"));
    let service = Service::start(&["--config", file.path()]);
    let check = || service.post("/v1/check", r#"{"limit":"demo","key":"a"}"#);
    // One third of the limit of three.
    let reply = check();
    assert_eq!((reply.status, &reply.json()["source"]), (200, &json!("fallback")));
    assert_eq!(reply.json()["policies"][0]["limit"], json!(1));
    let denied = check();
    assert_eq!((denied.status, &denied.json()["source"]), (429, &json!("fallback")));
    assert!(denied.field("retry-after").is_some());
    assert_eq!(service.post("/v1/reset", r#"{"limit":"demo","key":"a"}"#).status, 503);
    assert_eq!(service.get("/v1/limits").json()["limits"][0]["on_store_failure"], json!("local"));
    let metrics = service.get("/metrics").body;
    for line in [
        r#"sluicegate_decisions_total{limit="demo",policy="",outcome="local_allowed"} 1"#,
        r#"sluicegate_fallback_answers_total{allowed="true"} 1"#,
        r#"sluicegate_fallback_answers_total{allowed="false"} 1"#,
        "sluicegate_fallback_active 1",
        "sluicegate_fallback_owing_keys 1",
        "sluicegate_fallback_processes 3",
        r#"sluicegate_breaker_open{node=""} 0"#,
        "sluicegate_deny_cache_answers_total 0",
        "sluicegate_lease_answers_total 0",
        "sluicegate_lease_units_granted_total 0",
        "sluicegate_lease_units_spent_total 0",
        "sluicegate_lease_units_returned_total 0",
        "sluicegate_lease_units_expired_total 0",
        "sluicegate_store_calls_total 0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line}:\n{metrics}");
    }
    let done = sluicegate(&["check", "--config", file.path(), "--limit", "demo", "--key", "a"]);
    assert_eq!((done.status, done.stdout.contains("0 of 1 left")), (0, true), "{done:?}");
}

#[test]
fn a_store_that_never_answers_is_given_up_at_the_deadline() {
    let garbage = GarbageServer::start(Misbehaviour::Silence).unwrap();
    let done = sluicegate(&[
        "check",
        "--store",
        &garbage.url(),
        "--deadline",
        "50ms",
        "--limit",
        "demo",
        "--key",
        "a",
    ]);
    assert_eq!((done.status, done.stdout.as_str()), (3, ""), "{done:?}");
}

#[test]
fn a_store_that_comes_back_is_used_again() {
    let mut server = Server::start().unwrap();
    let file = config(&server.url(), "");
    let mut service = Service::start(&["--config", file.path()]);
    let body = r#"{"limit":"demo","key":"a"}"#;
    assert_eq!(service.post("/v1/check", body).status, 200);
    server.kill().unwrap();
    for _ in 0..3 {
        assert_eq!(service.post("/v1/check", body).status, 503);
        assert_eq!(service.get("/readyz").status, 200);
    }
    server.restart().unwrap();
    until("the store answers", || {
        let reply = service.post("/v1/peek", body);
        if reply.status == 200 { Ok(()) } else { Err(reply) }
    });
    for _ in 0..3 {
        assert_eq!(service.post("/v1/check", body).status, 200);
    }
    service.signal(rustix::process::Signal::TERM);
    let log = service.wait().1;
    let told: Vec<_> =
        log.lines().filter(|line| line.contains("sluicegate::store_health")).collect();
    let [fails, answers] = told[..] else { panic!("{log}") };
    assert!(fails.contains("ERROR") && fails.contains("the store fails: "), "{fails}");
    assert!(fails.contains("`on_store_failure` is `error`"), "{fails}");
    assert!(answers.contains("INFO") && answers.contains("again: "), "{answers}");
}

fn check_store(text: &str) -> crate::support::Done {
    let file = File::new("limits.yaml", text);
    sluicegate(&["config", "check", file.path(), "--connect"])
}

#[test]
fn config_check_connects_and_says_whether_the_store_can_decide() {
    let limits = "limits:\n  a: {policies: [gcra 1/h, sliding_log 5/h]}\n  b: {policies: [fixed_window 9/h]}\n";
    let done = check_store(limits);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(done.stdout.ends_with(": 2 limits, no errors\nstore memory:: decides\n"), "{done:?}");

    let binary = servers::available().unwrap().remove(0);
    let server = Server::builder(&binary).start().unwrap();
    let password = File::new("password", "secret\n");
    let text = |user: &str| {
        format!(
            "store: {}/1\nredis: {{prefix: check, user: {user}, password_file: {}}}\n{limits}",
            server.url(),
            password.path()
        )
    };
    let rules = "on >secret ~check:* +select +evalsha +eval +time +get +set +getrange +setrange +strlen +pexpire +del";
    server.set_user("limiter", &rules.split(' ').collect::<Vec<_>>()).unwrap();
    let done = check_store(&text("limiter"));
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(done.stdout.ends_with(&format!("store {}/1: decides\n", server.url())), "{done:?}");
    let left = server.command(&[b"KEYS", b"*"]).unwrap().to_string();
    assert!(!left.contains("sluicegate-config-check"), "{left}");

    // For an unusable store, the error names the store, the reason and the fix.
    let missing = rules.split(' ').filter(|rule| *rule != "+strlen").collect::<Vec<_>>();
    server.set_user("partial", &missing).unwrap();
    let port = server.port();
    for (text, why) in [
        (text("partial"), "+strlen"),
        (text("nobody"), "has another password for the user `nobody`, or has no such user"),
        (text("limiter").replace(password.path(), "/no/such"), "password file /no/such can't be"),
        (format!("store: redis://127.0.0.1:1\n{limits}"), "can't be reached (Connection refused"),
        (format!("store: rediss://127.0.0.1:{port}\n{limits}"), "looks like a port without TLS"),
        (format!("store: rediss://127.0.0.1:{port}?ca=/none\n{limits}"), "the file of `ca`, /none"),
        (
            format!("store: redis+cluster://127.0.0.1:{port}\n{limits}"),
            "is a server of its own, and no node of a cluster: write redis://127.0.0.1:",
        ),
    ] {
        let done = check_store(&text);
        assert_eq!(done.status, 3, "{done:?}");
        assert!(done.stderr.contains(why), "no `{why}` in {}", done.stderr);
        assert!(done.stdout.ends_with(": 2 limits, no errors\n"), "{done:?}");
        assert!(!done.stderr.contains("secret"), "{done:?}");
    }
}

#[test]
fn a_service_logs_at_its_start_why_its_store_can_t_decide() {
    let binary = servers::available().unwrap().remove(0);
    let server = Server::builder(&binary).password("secret").start().unwrap();
    let mut service = Service::start(&["--store", &server.url()]);
    let log = service.follow_its_log();
    let log = until("the line in the log", || {
        let log = log.lock().unwrap().clone();
        if log.contains("the store fails: ") { Ok(log) } else { Err(log) }
    });
    assert!(log.contains("wants another user or password: write them into the URL"), "{log}");
}

#[test]
fn max_clock_back_bounds_for_how_long_a_clock_that_is_set_back_holds_up_a_key() {
    // Redis doesn't run with such a clock.
    let binaries = servers::available().unwrap();
    let valkey = binaries.iter().find(|binary| binary.product() == "valkey").unwrap();
    let clock = FakeClock::new().unwrap();
    let server = Server::builder(valkey).clock(&clock).start().unwrap();
    let body = r#"{"limit":"demo","key":"a"}"#;
    let start = |more: &str| {
        let store = own_store(server.url());
        let limits = "limits: {demo: {policies: [gcra 1/s], deadline: 5s}}";
        let file = File::new("limits.yaml", &format!("{store}{more}\n{limits}\n"));
        (Service::start(&["--config", file.path()]), file)
    };
    let (patient, _patients) = start("max_clock_back: 1h");
    let (usual, _usuals) = start("");
    // The keys expire after a second.
    for service in [&patient, &usual] {
        assert_eq!(service.post("/v1/check", body).status, 200);
    }
    clock.set_offset(-1_800).unwrap();
    let restamped = |service: &Service| {
        let text = service.get("/metrics").body;
        text.contains(r#"sluicegate_state_notes_total{note="restamped"} 1"#)
    };
    // Five seconds is the default.
    until("the key is taken for one of now", || {
        let status = usual.post("/v1/check", body).status;
        if restamped(&usual) { Ok(()) } else { Err(status) }
    });
    until("it is free again", || match usual.post("/v1/check", body).status {
        200 => Ok(()),
        other => Err(other),
    });
    assert_eq!(patient.post("/v1/check", body).status, 429, "it stands still for half an hour");
    assert!(!restamped(&patient));
}
