//! Tests the list of the newest decisions, over HTTP and on the command line, and the lists of the top keys.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{File, Service, binary, sluicegate};

const LIMITS: &str = r#"
limits:
  login: {policies: ["fixed_window 2/d as day", "gcra 1/h shadow as soon"]}
  mail: {policies: ["fixed_window 9/d"]}
"#;

fn start() -> (Service, File) {
    let file = File::new("limits.yaml", LIMITS);
    (Service::start(&["--config", file.path()]), file)
}

fn rows(service: &Service, query: &str) -> Vec<Value> {
    let reply = service.get(&format!("/v1/recent?{query}"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["recent"].as_array().unwrap().clone()
}

#[test]
fn rows_are_filtered_and_followed() {
    let (service, _file) = start();
    for key in ["alice", "alice", "alice", "alicia", "bob"] {
        service.call("check", "login", key, &json!({}));
    }
    service.call("take", "mail", "alice", &json!({"cost": 3}));
    for (query, count) in [
        ("", 6),
        ("limit=login", 5),
        ("key=alice", 4),
        ("prefix=ali", 5),
        ("outcome=denied", 1),
        ("outcome=allowed", 5),
        ("outcome=shadow_denied", 1),
        ("policy=soon", 2),
        ("policy=day", 1),
        ("source=store", 6),
        ("source=lease", 0),
        ("client=nobody", 0),
        ("count=2", 2),
        ("limit=login&key=alice&outcome=denied", 1),
        ("since=5", 1),
    ] {
        assert_eq!(rows(&service, query).len(), count, "{query}");
    }
    let first = service.get("/v1/recent?since=0&count=4").json();
    assert_eq!((&first["next"], &first["recent"][0]["number"]), (&json!(4), &json!(4)));
    assert_eq!(service.get("/v1/recent").json()["next"], 6);
    let newest = &rows(&service, "count=1")[0];
    assert_eq!(
        (&newest["op"], &newest["cost"], &newest["limit"]),
        (&json!("take"), &json!(3), &json!("mail"))
    );
    for query in [
        "outcome=maybe",
        "since=-1",
        "since=x",
        "count=0",
        "source=moon",
        "format=xml",
        "limit=a&limit=b",
        "page=1",
    ] {
        assert_eq!(service.get(&format!("/v1/recent?{query}")).status, 400, "{query}");
    }
}

#[test]
fn the_list_as_lines_is_a_decision_log() {
    let folder = tempfile::tempdir().unwrap();
    let (log, list) = (folder.path().join("log"), folder.path().join("list"));
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&[
        "--config",
        file.path(),
        "--drain",
        "0s",
        "--decision-log",
        log.to_str().unwrap(),
    ]);
    for number in 0..30 {
        service.call("check", "login", &format!("key-{}", number % 7), &json!({}));
    }
    let lines = service.get("/v1/recent?format=jsonl&count=1000");
    assert_eq!(lines.field("content-type"), Some("application/x-ndjson"));
    let accepted =
        service.send("GET", "/v1/recent", &[("Accept", "application/x-ndjson;q=1")], b"");
    assert_eq!(accepted.body, lines.body);
    fs::write(&list, &lines.body).unwrap();
    let mut service = service;
    service.signal(Signal::TERM);
    service.wait();
    assert_eq!(fs::read_to_string(&log).unwrap(), lines.body, "one form for both");
    let report = sluicegate(&[
        "replay",
        "--log",
        list.to_str().unwrap(),
        "--policy",
        "fixed_window 2/d",
        "--format",
        "json",
    ]);
    assert_eq!(report.json()["policies"][0]["denied"], 30 - 14);
}

#[test]
fn the_command_lists_and_follows_with_hostile_keys_escaped() {
    let (service, _file) = start();
    let url = format!("http://{}", service.address());
    let hostile = "\u{1b}[2J\u{202e}\r\nx";
    for _ in 0..3 {
        service.call("check", "login", hostile, &json!({}));
    }
    let done = sluicegate(&["recent", "--server", &url, "--outcome", "denied"]);
    assert_eq!((done.status, done.stdout.lines().count()), (0, 1), "{done:?}");
    assert!(
        done.stdout
            .contains(r"denied   check login  \u{1b}[2J\u{202e}\r\nx  by login: day  retry after"),
        "{done:?}"
    );
    let done = sluicegate(&["recent", "--server", &url, "--json", "--count", "1"]);
    let row: Value = serde_json::from_str(done.stdout.trim_end()).unwrap();
    assert!(done.stdout.is_ascii() && !done.stdout.contains('\u{1b}'), "{done:?}");
    assert_eq!(row["key"], hostile);
    let mut child = binary()
        .args(["recent", "--server", &url, "--follow", "--limit", "mail"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut followed = Vec::new();
    // The first look may come before or after the first of these.
    for number in 0..3 {
        service.call("check", "mail", &format!("key-{number}"), &json!({}));
        followed.push(lines.next().unwrap().unwrap());
    }
    for (number, line) in followed.iter().enumerate() {
        assert!(line.contains(&format!("key-{number}")), "{followed:?}");
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let nobody = sluicegate(&["recent", "--server", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status, 3, "{nobody:?}");
}

#[test]
fn the_top_keys_of_a_limit_are_listed() {
    let (service, _file) = start();
    for (key, times) in [("alice", 5), ("bob", 2), ("carol", 1)] {
        for _ in 0..times {
            service.call("check", "login", key, &json!({}));
        }
    }
    service.call("check", "mail", "dora", &json!({"cost": 7}));
    let top = |path: &str| service.get(&format!("/v1/limits/{path}")).json();
    let lists = top("login/top");
    let counts = |list: &Value| -> Vec<_> {
        let keys = list.as_array().unwrap().iter();
        keys.map(|it| (it["key"].as_str().unwrap().to_owned(), it["count"].as_u64().unwrap()))
            .collect()
    };
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(counts(&lists["by_use"]), [named("alice", 2), named("bob", 2), named("carol", 1)]);
    assert_eq!(counts(&lists["by_denials"]), [named("alice", 3)]);
    assert_eq!(lists["by_use"][0]["at_most_over"], 0);
    assert_eq!(counts(&top("mail/top?count=1")["by_use"]), [named("dora", 7)]);
    assert_eq!(service.get("/v1/limits/nobody/top").status, 404);
    assert_eq!(service.get("/v1/limits/%ff/top").status, 400);
    assert_eq!(service.get("/v1/limits/login/top?count=0").status, 400);
}
