//! Tests the stream of the service's activity, and the list of its reloads.

mod problems;
mod stuck;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::{until, until_seldom};

use crate::event_stream::Stream;
use crate::support::{File, Service, binary, own_store, sluicegate};

const LIMITS: &str = r#"
limits:
  login: {policies: ["fixed_window 2/d as day", "gcra 1/h shadow as soon"]}
  mail: {policies: ["fixed_window 9/d"]}
  off: {policies: ["fixed_window 9/d"], enabled: false}
"#;

fn start(text: &str, args: &[&str]) -> (Service, File) {
    let file = File::new("limits.yaml", text);
    (Service::start(&[&["--config", file.path()], args].concat()), file)
}

/// Waits until the counts of a limit have all its requests: they are taken once a second.
fn wait_for_counts(service: &Service, limit: &str, count: u64) {
    let mut stream = Stream::open(service, &format!("search={limit}&sort=name&count=1"));
    stream.until("limits", |limits| {
        let sums = &limits["rows"][0]["sums"];
        sums["allowed"].as_u64().unwrap() + sums["denied"].as_u64().unwrap() == count
    });
}

fn names(limits: &Value) -> Vec<&str> {
    limits["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[test]
fn events_have_the_history_the_state_the_limits_and_new_decisions() {
    let (service, _file) = start(LIMITS, &[]);
    for _ in 0..3 {
        service.call("check", "login", "alice", &json!({}));
    }
    let mut stream = Stream::open(&service, "");
    for field in
        ["content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"]
    {
        assert!(stream.head.contains(&format!("{field}\r\n")), "{}", stream.head);
    }
    let first: Vec<_> = (0..4).map(|_| stream.next().unwrap()).collect();
    let order: Vec<_> = first.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(order, ["history", "now", "limits", "recent"]);
    let [history, now, limits, recent] = &first[..] else { panic!() };
    let steps = history.data["steps"].as_u64().unwrap();
    assert_eq!((&history.data["whole"], &history.data["step_ms"]), (&json!(true), &json!(10_000)));
    for (name, values) in history.data["series"].as_object().unwrap() {
        assert_eq!(values.as_array().unwrap().len() as u64, steps, "{name}");
    }
    assert_eq!((&now.data["store"]["kind"], &now.data["streams"]), (&json!("memory"), &json!(1)));
    assert_eq!((&now.data["config"]["stale"], &now.data["problems"]), (&json!(false), &json!([])));
    assert_eq!((&limits.data["total"], &limits.data["matching"]), (&json!(3), &json!(3)));
    let rows = recent.data["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["allowed"]), (3, &json!(false)));

    service.call("check", "login", "bob", &json!({}));
    let later = stream.until("recent", |recent| !recent["rows"].as_array().unwrap().is_empty());
    assert_eq!((later["rows"].as_array().unwrap().len(), &later["next"]), (1, &json!(4)));
    let login = |limits: &Value| limits["rows"][0].clone();
    let limits = stream.until("limits", |limits| login(limits)["sums"]["allowed"] == 3);
    let row = login(&limits);
    assert_eq!((&row["name"], &row["sums"]["denied"]), (&json!("login"), &json!(1)));
    assert_eq!(row["sums"]["shadow_denied"], 1, "of alice's second check");
    assert_eq!((&row["top_denied"][0]["key"], &row["shadow"]), (&json!("alice"), &json!(true)));
    assert_eq!(row["capacity_permille"], 1_000, "alice used 2 of 2");

    // The history continues where an earlier stream ended, in this process only.
    let id = history.id.clone().unwrap();
    let again = |query: &str, fields: &str| {
        let mut stream = Stream::open_with(&service, query, fields).unwrap();
        stream.next_named("history").data
    };
    let resumed =
        [again(&format!("resume={id}"), ""), again("", &format!("Last-Event-ID: {id}\r\n"))];
    for resumed in resumed {
        assert_eq!(resumed["whole"], false);
        assert!(resumed["steps"].as_u64().unwrap() < 6, "{resumed}");
    }
    for other in ["resume=x-0", "resume=", "resume=%FF"] {
        match Stream::open_with(&service, other, "") {
            Ok(mut stream) => assert_eq!(stream.next_named("history").data["whole"], true),
            Err(reply) => assert_eq!(reply.status, 400, "{other}"),
        }
    }
    let appended = stream.next_named("history");
    assert_eq!((&appended.data["whole"], &appended.data["steps"]), (&json!(false), &json!(1)));
    assert_eq!(appended.data["series"]["denied"], json!([1]));
    let limits = stream.next_named("limits").data;
    assert_eq!(login(&limits)["history"]["denied"].as_array().unwrap().last(), Some(&json!(1)));
}

#[test]
fn the_query_chooses_limits_and_decisions() {
    let mut text = String::from("limits:\n");
    for number in 0..10_000 {
        let _ =
            writeln!(text, "  l{number}: {{policies: [\"fixed_window {}/d\"]}}", 2 + number % 2);
    }
    text.push_str(
        "  trial: {policies: [gcra 1/h shadow]}\n  OFF: {policies: [gcra 1/h], enabled: false}\n",
    );
    let (service, _file) = start(&text, &[]);
    for (limit, times) in [("l10", 5), ("l11", 2), ("trial", 3)] {
        for _ in 0..times {
            service.call("check", limit, "a", &json!({}));
        }
    }
    wait_for_counts(&service, "trial", 3);
    let window = |query: &str| {
        let reply = service.get(&format!("/v1/stream?follow=off&{query}"));
        assert_eq!(reply.status, 200, "{}", reply.body);
        Stream::open(&service, query).next_named("limits").data
    };
    let seen = window("search=l99&sort=name&count=3&offset=2");
    assert_eq!((&seen["total"], &seen["matching"]), (&json!(10_002), &json!(111)));
    assert_eq!(names(&seen), ["l9900", "l9901", "l9902"]);
    assert_eq!(names(&window("")).len(), 50);
    assert_eq!(names(&window("count=200&offset=9990")).len(), 12);
    for (query, expected) in [
        ("show=busy&sort=name", &["l10", "l11", "trial"][..]),
        ("show=busy", &["l10", "trial", "l11"]),
        ("show=busy&sort=rate", &["l10", "trial", "l11"]),
        ("show=busy&sort=capacity", &["l10", "l11", "trial"]),
        ("show=busy&sort=shadow", &["trial", "l10", "l11"]),
        ("show=denied", &["l10"]),
        ("show=shadow", &["trial"]),
        ("show=off", &["OFF"]),
        ("search=off", &["OFF"]),
        ("show=overridden", &[]),
        ("count=0", &[]),
    ] {
        assert_eq!(names(&window(query)), expected, "{query}");
    }
    assert_eq!(service.send("PUT", "/v1/limits/l7/override", &[], br#"{"times":2}"#).status, 200);
    let overridden = window("show=overridden");
    assert_eq!(
        (names(&overridden), &overridden["rows"][0]["overridden"]),
        (vec!["l7"], &json!(true))
    );

    let decisions = |query: &str| {
        let recent = Stream::open(&service, query).next_named("recent").data;
        recent["rows"].as_array().unwrap().len()
    };
    for (query, count) in [
        ("", 10),
        ("limit=l10", 5),
        ("outcome=denied", 3),
        ("outcome=shadow_denied&limit=trial", 2),
        ("key=a&since=8", 2),
        ("prefix=b", 0),
        ("source=lease", 0),
    ] {
        assert_eq!(decisions(query), count, "{query}");
    }
    let mut silent = Stream::open(&service, "recent=off");
    let order: Vec<_> = (0..5).map(|_| silent.next().unwrap().name).collect();
    assert_eq!(order, ["history", "now", "limits", "now", "limits"]);
    for query in [
        "sort=age",
        "show=none",
        "count=201",
        "count=x",
        "offset=-1",
        "recent=maybe",
        "follow=1",
        "outcome=x",
    ] {
        assert_eq!(service.get(&format!("/v1/stream?{query}")).status, 400, "{query}");
    }
}

#[test]
fn streams_are_bounded_and_end_with_the_service() {
    let (mut service, _file) = start(LIMITS, &[]);
    let mut streams: Vec<_> = (0..32).map(|_| Stream::open(&service, "")).collect();
    let refused = service.get("/v1/stream");
    assert_eq!((refused.status, &*refused.error_code()), (503, "too_many_streams"));
    streams.pop();
    until("a place is free again", || match Stream::open_with(&service, "", "") {
        Ok(stream) => {
            streams.push(stream);
            Ok(())
        }
        Err(reply) => Err(reply.status),
    });
    assert_eq!(service.get("/v1/limits").status, 200, "others still have connections");
    service.signal(Signal::TERM);
    for stream in &mut streams {
        assert_eq!(stream.next_named("bye").data, json!({"reason": "stopping"}));
        assert!(stream.next().is_none());
    }
    let (status, stderr) = service.wait();
    assert!(status.success(), "{stderr}");
}

#[test]
fn a_client_sees_only_its_limits() {
    let token = File::new("token", "s3cret");
    let client = format!("{{name: a, token_file: {}, may: [read], limits: [mail]}}", token.path());
    let text = format!("{LIMITS}clients: [{client}]\n");
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path(), "--admin-token", "b0ss"]);
    let check = |limit: &str| {
        let body = json!({"limit": limit, "key": "alice"}).to_string();
        service.send("POST", "/v1/check", &[("Authorization", "Bearer b0ss")], body.as_bytes())
    };
    for limit in ["login", "login", "login", "mail"] {
        assert!(check(limit).status < 500);
    }
    assert_eq!(service.get("/v1/stream").status, 401);
    let token = "Authorization: Bearer s3cret\r\n";
    let mut stream = Stream::open_with(&service, "", token).unwrap();
    let events: Vec<_> = (0..4).map(|_| stream.next().unwrap()).collect();
    for event in &events {
        assert!(!event.text.contains("login"), "{}", event.text);
    }
    assert_eq!((names(&events[2].data), &events[2].data["total"]), (vec!["mail"], &json!(1)));
    assert_eq!(events[3].data["rows"].as_array().unwrap().len(), 1);
    let history = stream.next_named("history").data;
    assert_eq!(history["series"]["denied"], json!([0]), "the denial is another limit's");
    assert_eq!(history["series"]["allowed"], json!([1]));
    let config = service.send("GET", "/v1/config", &[("Authorization", "Bearer s3cret")], b"");
    assert_eq!((config.status, &*config.error_code()), (403, "forbidden"));
    let mut admin = Stream::open_with(&service, "", "Authorization: Bearer b0ss\r\n").unwrap();
    assert_eq!(admin.next_named("limits").data["total"], 3);
    // The message of a refused file names other limits.
    file.replace(&format!("{text}nonsense: 1\n"));
    let refusal = |token: &str| {
        let fleet = service.send("GET", "/v1/fleet", &[("Authorization", token)], b"").json();
        fleet["processes"][0]["refused"]["message"].as_str().unwrap_or_default().to_owned()
    };
    until("the file is refused", || {
        let refusal = refusal("Bearer b0ss");
        if refusal.contains("nonsense") { Ok(()) } else { Err(refusal) }
    });
    let shown = refusal("Bearer s3cret");
    assert!(!shown.is_empty() && !shown.contains("nonsense"), "{shown}");
    // A revoked client's stream ends at the next step.
    file.replace(LIMITS);
    while let Some(event) = stream.next() {
        assert_ne!(event.name, "bye");
    }
}

#[test]
fn hostile_keys_are_escaped() {
    let (service, _file) = start(LIMITS, &[]);
    let hostile = "\u{1b}[2J\u{202e}\r\n\nevent: bye\u{9b}\u{2028}x";
    for _ in 0..3 {
        service.call("check", "login", hostile, &json!({}));
    }
    wait_for_counts(&service, "login", 3);
    let mut stream = Stream::open(&service, "");
    for name in ["history", "now", "limits", "recent"] {
        let event = stream.next().unwrap();
        assert_eq!(event.name, name);
        assert!(event.text.is_ascii() && !event.text.contains(char::is_control), "{event:?}");
        match name {
            "limits" => assert_eq!(event.data["rows"][0]["top_denied"][0]["key"], hostile),
            "recent" => assert_eq!(event.data["rows"][0]["key"], hostile),
            _ => {}
        }
    }
}

#[test]
fn a_failed_store_is_a_problem_with_what_is_decided_meanwhile() {
    let server = Server::start().unwrap();
    let text = own_store(server.url())
        + "limits:\n  a: {policies: [gcra 9/h], on_store_failure: allow}\n  \
           b: {policies: [gcra 9/h], on_store_failure: deny}\n";
    let (service, _file) = start(&text, &[]);
    service.call("check", "a", "k", &json!({}));
    let mut stream = Stream::open(&service, "");
    let up = stream.until("now", |now| now["store"]["state"] == "up");
    assert_eq!((&up["store"]["kind"], &up["problems"]), (&json!("redis"), &json!([])));
    drop(server);
    service.call("check", "a", "k", &json!({}));
    let problem = stream.problem("store-unreachable");
    assert_eq!(
        problem["text"],
        "The store doesn't answer, so 1 limit allows all requests, 1 limit denies all requests."
    );
    assert_eq!(problem["severity"], "error");
    let down = stream.until("now", |now| now["store"]["down_ms"].as_u64() > Some(1_000));
    assert_eq!(down["store"]["state"], "down");
    assert!(down["store"]["error"].is_string(), "{down}");
    assert!(down["problems"][0]["since_ms"].as_u64() > Some(1_000), "{down}");
}

#[test]
fn reloads_are_listed_and_a_refused_file_is_a_problem() {
    let url = "# redis://cache:hunter2@127.0.0.1:6379\n";
    let (service, file) = start(&format!("{url}{LIMITS}"), &[]);
    let config = || service.get("/v1/config").json();
    let begun = until("the file is read", || match config() {
        begun if begun["text"].is_string() => Ok(begun),
        begun => Err(begun),
    });
    assert_eq!(begun["text"], format!("# redis://cache:***@127.0.0.1:6379\n{LIMITS}"));
    assert_eq!((&begun["file"], &begun["stale"]), (&json!(file.path()), &json!(false)));
    assert_eq!(begun["reloads"].as_array().unwrap().len(), 1);
    assert_eq!(begun["reloads"][0]["changes"], json!(["The service started."]));
    let mut stream = Stream::open(&service, "");
    file.replace(&format!("{url}{}", LIMITS.replace("9/d", "9/fortnight")));
    let problem = stream.problem("config-refused");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("fortnight") && detail.contains('^'), "{detail}");
    let refused = config();
    assert_eq!((&refused["stale"], &refused["text"]), (&json!(true), &begun["text"]));
    assert_eq!(refused["reloads"][0]["outcome"], "refused");
    assert_eq!(refused["reloads"][0]["message"], detail);
    file.replace(&LIMITS.replace("fixed_window 2/d", "fixed_window 3/d"));
    let fixed = stream.until("now", |now| now["problems"] == json!([]));
    assert_eq!(fixed["config"]["stale"], false);
    let applied = config();
    assert_eq!(
        applied["reloads"][0]["changes"],
        json!([
            "Limit `login`: policy `day` changed from `fixed_window 2/d as day` to `fixed_window 3/d as day`."
        ])
    );
    assert_eq!(
        (applied["reloads"].as_array().unwrap().len(), &applied["stale"]),
        (3, &json!(false))
    );
    assert!(applied["digest"] != begun["digest"] && applied["age_ms"].as_u64() < Some(30_000));
}

#[test]
fn a_full_store_is_a_problem() {
    let (service, _file) = start(&format!("memory: {{max_keys: 10}}\n{LIMITS}"), &[]);
    let mut stream = Stream::open(&service, "");
    for number in 0..60 {
        service.call("check", "mail", &format!("k{number}"), &json!({"cost": 9}));
    }
    let problem = stream.problem("store-keys");
    assert_eq!(problem["text"], "The embedded store is full: 10 of 10 keys are used.");
    let problem = stream.problem("evicts-live-keys");
    assert_eq!(problem["severity"], "error", "{problem}");
}

#[test]
fn the_command_prints_a_table_or_json_with_hostile_keys_escaped() {
    let (service, _file) = start(LIMITS, &[]);
    let url = format!("http://{}", service.address());
    let hostile = "\u{1b}[2J\u{202e}\r\nx";
    for _ in 0..3 {
        service.call("check", "login", hostile, &json!({}));
    }
    wait_for_counts(&service, "login", 3);
    let done = sluicegate(&["top", "--server", &url]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{done:?}");
    assert!(done.stdout.contains("3 of 3 limits\n"), "{}", done.stdout);
    let line = done.stdout.lines().find(|line| line.starts_with("login ")).unwrap();
    assert!(
        line.ends_with(r"denied: \u{1b}[2J\u{202e}\r\nx 1; used: \u{1b}[2J\u{202e}\r\nx 2"),
        "{line}"
    );
    assert!(!done.stdout.contains('\u{1b}'));
    let only = sluicegate(&["top", "--server", &url, "--once", "--limit", "ma", "--sort", "name"]);
    assert!(only.stdout.contains("1 of 3 limits\n") && !only.stdout.contains("login"), "{only:?}");
    let once = sluicegate(&["top", "--server", &url, "--once", "--json", "--count", "1"]);
    let rows = once.json()["limits"]["rows"].clone();
    assert_eq!(
        (rows.as_array().unwrap().len(), &rows[0]["top_denied"][0]["key"]),
        (1, &json!(hostile))
    );
    assert!(once.stdout.trim_end().is_ascii() && once.json()["now"]["store"]["kind"] == "memory");

    // Without --once, lines are printed until a signal.
    let mut child =
        binary().args(["top", "--server", &url, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["limits"]["total"], 3);
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let nobody = sluicegate(&["top", "--server", "http://127.0.0.1:1", "--once"]);
    assert_eq!(nobody.status, 3, "{nobody:?}");
}

#[test]
fn a_terminal_shows_failures_until_q() {
    let (service, _file) = start(LIMITS, &[]);
    let top =
        format!("{} top --server http://{}", env!("CARGO_BIN_EXE_sluicegate"), service.address());
    // `script` runs it in a terminal.
    let mut child = Command::new("script")
        .args(["-qefc", &top, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut wait_for = |text: &str| {
        let mut line = Vec::new();
        while !String::from_utf8_lossy(&line).contains(text) {
            line.clear();
            assert!(shown.read_until(b'\n', &mut line).unwrap() > 0, "no {text}");
        }
    };
    wait_for("3 of 3 limits");
    drop(service);
    wait_for("The command tries again each second.");
    child.stdin.as_mut().unwrap().write_all(b"xq").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn lines_end_when_the_output_is_closed() {
    let (service, _file) = start(LIMITS, &[]);
    let url = format!("http://{}", service.address());
    for args in [&["top", "--json"][..], &["recent", "--follow"]] {
        let mut child =
            binary().args(args).args(["--server", &url]).stdout(Stdio::piped()).spawn().unwrap();
        service.call("check", "login", "alice", &json!({}));
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut String::new()).unwrap();
        drop(lines);
        until_seldom("the command ends", || {
            service.call("check", "login", "alice", &json!({}));
            child.try_wait().unwrap().ok_or("it still runs")
        });
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}");
    }
}
