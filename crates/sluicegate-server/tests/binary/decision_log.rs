//! Tests the decision log.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_testkit::wait::until;
use tempfile::TempDir;

use crate::support::{Client, File, Service, binary, sluicegate};

const LIMITS: &str = r#"
limits:
  login: {policies: ["fixed_window 3/d as day", "gcra 1/h burst 2 shadow as soon"], ban: 9/h for 1h}
  llm: {policies: ["fixed_window 100/d as requests", "fixed_window 9000/d as tokens"]}
  mail: {policies: ["token_bucket 1/h burst 9"], block: [spam]}
"#;

/// A folder for logs.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts a service with a log and a config file.
    fn start(&self, limits: &str, args: &[&str]) -> Service {
        let (config, log) = (self.path("limits.yaml"), self.path("log"));
        fs::write(&config, limits).unwrap();
        let (config, log) = (config.to_str().unwrap(), log.to_str().unwrap());
        Service::start(
            &[&["--config", config, "--decision-log", log, "--drain", "0s"], args].concat(),
        )
    }
}

/// Stops a service, and returns the lines of its log.
fn stopped(mut service: Service, log: &Path) -> Vec<Value> {
    service.signal(Signal::TERM);
    let (status, stderr) = service.wait();
    assert_eq!(status.code(), Some(0), "{stderr}");
    lines(log)
}

fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn left_out(service: &Service, reason: &str) -> u64 {
    service.metric(&format!("sluicegate_decision_log_left_out_total{{reason=\"{reason}\"}}"))
}

#[test]
fn a_line_names_the_trace_of_its_request() {
    let folder = Folder::new();
    let service = folder.start(LIMITS, &[]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let field = format!("00-{trace}-00f067aa0ba902b7-01");
    let body = br#"{"limit":"mail","key":"alice"}"#;
    for fields in [&[("traceparent", field.as_str())][..], &[]] {
        assert_eq!(service.send("POST", "/v1/check", fields, body).status, 200);
    }
    let recent = service.get("/v1/recent").json();
    assert_eq!(recent["recent"][1]["trace_id"], trace, "{recent}");
    let lines = stopped(service, &folder.path("log"));
    assert_eq!((&lines[0]["trace_id"], lines[1].get("trace_id")), (&json!(trace), None));
}

#[test]
fn every_operation_that_decides_or_charges_has_a_line() {
    let folder = Folder::new();
    let service = folder.start(LIMITS, &["--admin-token", "s3cret"]);
    let admin = [("Authorization", "Bearer s3cret")];
    let call = |call: &str, body: Value| {
        let reply =
            service.send("POST", &format!("/v1/{call}"), &admin, body.to_string().as_bytes());
        assert!(matches!(reply.status, 200 | 403 | 429), "{call}: {}", reply.body);
        reply.json()
    };
    let login = json!({"limit": "login", "key": "alice"});
    for _ in 0..4 {
        call("check", login.clone());
    }
    call("peek", login.clone());
    call(
        "check",
        json!({"limit": "llm", "key": "é\u{1b}", "cost": {"requests": 1, "tokens": 120}}),
    );
    call("take", json!({"limit": "mail", "key": "alice", "cost": 20}));
    let reserved = call("reserve", json!({"limit": "mail", "key": "bob", "within": "1s"}));
    call("cancel", json!({"hold": reserved["hold"]["token"]}));
    let held = call(
        "check",
        json!({"limit": "llm", "key": "held", "cost": {"tokens": 100}, "hold": "30s"}),
    );
    call("settle", json!({"hold": held["hold"]["token"], "used": {"tokens": 40}}));
    call("charge", json!({"limit": "mail", "key": "bob", "cost": 2}));
    call("refund", json!({"limit": "mail", "key": "bob", "cost": 2}));
    call("ban", json!({"limit": "login", "key": "carol", "for": "1h"}));
    call("check", json!({"limit": "login", "key": "carol"}));
    call("unban", json!({"limit": "login", "key": "carol"}));
    call("pause", json!({"limit": "mail", "key": "carol", "for": "1h"}));
    call("resume", json!({"limit": "mail", "key": "carol"}));
    call("reset", login);
    call("check", json!({"limit": "mail", "key": "spam"}));
    let long = "k".repeat(300);
    call("check", json!({"limit": "mail", "key": long}));
    let both = json!({"limits": [{"limit": "mail", "key": "bob"}, {"limit": "login", "key": "dora", "cost": 4}]});
    call("check", both);
    let log = stopped(service, &folder.path("log"));
    let ops: Vec<_> = log.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert_eq!(
        ops,
        [
            "check", "check", "check", "check", "check", "take", "reserve", "cancel", "check",
            "settle", "charge", "refund", "ban", "check", "unban", "pause", "resume", "reset",
            "check", "check", "check", "check"
        ]
    );
    let mut first = log[0].clone();
    let time = first["time"].take();
    assert!(time.as_str().unwrap().ends_with('Z') && time.as_str().unwrap().len() == 27, "{time}");
    let expected = r#"{"time":null,"op":"check","limit":"login","key":"alice","allowed":true,"source":"store","binding":null,"cost":1,"retry_after_ms":0,"policies":[{"name":"day","limit":3,"remaining":2,"allowed":true},{"name":"soon","limit":2,"remaining":1,"allowed":true,"shadow":true}]}"#;
    assert_eq!(first, serde_json::from_str::<Value>(expected).unwrap());
    assert_eq!((&log[2]["allowed"], &log[2]["shadow_denied"]), (&json!(true), &json!(true)));
    assert_eq!((&log[3]["allowed"], &log[3]["binding"]), (&json!(false), &json!("day")));
    assert_eq!(
        (&log[4]["key"], &log[4]["cost"]),
        (&json!("é\u{1b}"), &json!({"requests": 1, "tokens": 120}))
    );
    assert_eq!((&log[5]["cost"], &log[5]["policies"][0]["remaining"]), (&json!(20), &json!(0)));
    assert_eq!(
        (&log[7]["key"], &log[7]["allowed"], &log[7]["cost"]),
        (&json!("bob"), &json!(true), &Value::Null)
    );
    assert_eq!(log[9]["policies"][1]["given_back"], 60, "{}", log[9]);
    assert_eq!((&log[13]["code"], &log[13]["binding"]), (&json!("banned"), &Value::Null));
    assert_eq!((&log[18]["source"], &log[18]["allowed"]), (&json!("bypass"), &json!(false)));
    let key = log[19]["key"].as_str().unwrap();
    assert!(key.starts_with(&"k".repeat(64)) && key.chars().count() == 97, "{key}");
    for (line, limit, other) in [(&log[20], "mail", "login"), (&log[21], "login", "mail")] {
        assert_eq!(
            (&line["limit"], &line["together"], &line["denied_by"]),
            (&json!(limit), &json!([other]), &json!(["login"]))
        );
        assert_eq!(line["policies"].as_array().unwrap().len(), if limit == "mail" { 1 } else { 2 });
    }
}

#[test]
fn what_was_decided_before_sigterm_is_written_and_replays_alike() {
    let folder = Folder::new();
    let limits = format!("{LIMITS}\ndecision_log: {{denials_at_most: 9000}}\n");
    let service = folder.start(&limits, &[]);
    let mut client = Client::connect(service.address()).unwrap();
    let mut denied = 0;
    for number in 0..3_000 {
        let body = json!({"limit": "mail", "key": format!("key-{}", number % 97)}).to_string();
        denied += u64::from(client.post("/v1/check", &body).unwrap().status == 429);
    }
    assert_eq!(service.post("/v1/reset", r#"{"limit":"login","key":"a"}"#).status, 200);
    assert_eq!(client.post("/v1/check", r#"{"limit":"mail","key":"spam"}"#).unwrap().status, 403);
    let both = r#"{"limits":[{"limit":"mail","key":"new"},{"limit":"login","key":"a","cost":4}]}"#;
    assert_eq!(client.post("/v1/check", both).unwrap().status, 429);
    let (path, config) = (folder.path("log"), folder.path("limits.yaml"));
    assert_eq!(stopped(service, &path).len(), 3_004);
    let (path, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let play = |args: &[&str]| {
        sluicegate(&[&["replay", "--log", path, "--format", "json"], args].concat())
    };
    let report = play(&["--config", config, "--limit", "mail"]).json();
    assert_eq!(
        (&report["format"], &report["requests"]),
        (&json!("sluicegate"), &json!(3_000)),
        "{report}"
    );
    assert_eq!(report["limit"]["denied"], denied, "the same decisions again");
    let rest = json!({"other_operations": 0, "not_counted": 1, "denied_by_others": 1, "costs_by_policy": 0, "left_out": 0});
    assert_eq!(report["decisions"], rest);
    let other = play(&["--limit", "mail", "--policy", "fixed_window 1000/d"]).json();
    assert_eq!(other["policies"][0]["denied"], 0);
    let several = play(&["--policy", "fixed_window 1000/d"]);
    assert!(several.status == 2 && several.stderr.contains("login, mail"), "{several:?}");
    let unknown = play(&["--limit", "male", "--policy", "fixed_window 1000/d"]);
    assert!(unknown.status == 2 && unknown.stderr.contains("it has login, mail"), "{unknown:?}");
}

#[test]
fn a_moved_log_begins_again_at_the_next_look_or_at_sighup() {
    let folder = Folder::new();
    let service = folder.start(LIMITS, &[]);
    let (path, moved) = (folder.path("log"), folder.path("log.1"));
    let mut sent = 0;
    let mut check = || {
        sent += 1;
        // Each key is new, because the log bounds the denials of a second.
        service.call("check", "mail", &format!("key-{sent}"), &json!({}));
    };
    check();
    until("the first line", || if lines(&path).is_empty() { Err(()) } else { Ok(()) });
    fs::rename(&path, &moved).unwrap();
    until("a new file", || {
        check();
        if path.exists() { Ok(()) } else { Err(()) }
    });
    fs::rename(&path, folder.path("log.2")).unwrap();
    service.signal(Signal::HUP);
    until("another new file", || if path.exists() { Ok(()) } else { Err(()) });
    check();
    let last = stopped(service, &path);
    let all = last.len() + lines(&moved).len() + lines(&folder.path("log.2")).len();
    assert!(all == sent && !last.is_empty(), "of {sent} lines {all} are there");
}

#[test]
fn without_its_folder_or_on_a_full_disk_decisions_go_on() {
    let folder = Folder::new();
    let logs = folder.path("logs");
    fs::create_dir(&logs).unwrap();
    let path = logs.join("decisions");
    let mut service = Service::start(&["--decision-log", path.to_str().unwrap()]);
    let log = service.follow_its_log();
    let check = || {
        let status = service.call("check", "demo", "a", &json!({})).status;
        assert!(status == 200 || status == 429, "{status}");
    };
    check();
    until("the first line", || if lines(&path).is_empty() { Err(()) } else { Ok(()) });
    fs::remove_dir_all(&logs).unwrap();
    until("lost lines", || {
        check();
        match left_out(&service, "write_failed") {
            0 => Err(()),
            _ => Ok(()),
        }
    });
    fs::create_dir(&logs).unwrap();
    let line = until("a line again", || {
        check();
        match fs::read_to_string(&path) {
            Ok(text) if text.ends_with('\n') => Ok(text),
            other => Err(other),
        }
    });
    let first: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert!(
        first["left_out"].as_u64().unwrap_or(0) > 0 || left_out(&service, "write_failed") > 0,
        "{first}"
    );
    let said = log.lock().unwrap().clone();
    assert_eq!(said.matches("the decision log can't be written").count(), 1, "{said}");

    let service = Service::start(&["--decision-log", "/dev/full"]);
    for _ in 0..5 {
        assert_eq!(service.call("check", "demo", "a", &json!({})).status, 200);
    }
    until("lost lines", || match left_out(&service, "write_failed") {
        5 => Ok(()),
        other => Err(other),
    });
    assert_eq!(service.metric("sluicegate_decision_log_lines_total"), 0);
    let unopened =
        sluicegate(&["serve", "--listen", "127.0.0.1:0", "--decision-log", "/does/not/exist"]);
    assert!(
        unopened.status == 2 && unopened.stderr.contains("decision log /does/not/exist"),
        "{unopened:?}"
    );
}

#[test]
fn a_sample_says_so_and_denials_are_bounded() {
    let folder = Folder::new();
    let config = |more: &str| format!("{LIMITS}\ndecision_log: {{{more}}}\n");
    let service = folder.start(&config("sample: 0.1, denials_at_most: 3, keys: hashed"), &[]);
    let mut client = Client::connect(service.address()).unwrap();
    for number in 0..2_000 {
        let body = json!({"limit": "llm", "key": format!("key-{number}")}).to_string();
        assert_eq!(client.post("/v1/check", &body).unwrap().status, 200);
    }
    let mut denied = 0;
    for _ in 0..30 {
        denied += u64::from(
            client.post("/v1/check", r#"{"limit":"login","key":"key-1"}"#).unwrap().status == 429,
        );
    }
    let lost = left_out(&service, "denials_at_most");
    let path = folder.path("log");
    let log = stopped(service, &path);
    let allowed =
        log.iter().filter(|line| line["allowed"] == true && line["limit"] == "llm").count();
    assert!((100..320).contains(&allowed), "{allowed} of 2,000 at a tenth");
    let written =
        u64::try_from(log.iter().filter(|line| line["allowed"] == false).count()).unwrap();
    assert_eq!((denied, written + lost), (27, 27));
    assert!((3..=9).contains(&written), "{written} in some seconds");
    for line in &log {
        assert_eq!(line["sample"], 0.1);
        let key = line["key"].as_str().unwrap();
        assert!(key.len() == 32 && !key.contains("key"), "{key}");
    }
    let path = path.to_str().unwrap();
    let args = [
        "replay",
        "--log",
        path,
        "--limit",
        "llm",
        "--policy",
        "fixed_window 5/d",
        "--format",
        "json",
    ];
    let refused = sluicegate(&args);
    assert!(refused.status == 2 && refused.stderr.contains("--scale"), "{refused:?}");
    let estimate = sluicegate(&[&args[..], &["--scale"]].concat()).json();
    assert_eq!(estimate["requests"], 10 * u64::try_from(allowed).unwrap());
    assert_eq!(estimate["decisions"]["estimated_from"], "0.1");
}

#[test]
fn a_change_of_the_log_needs_a_restart() {
    let folder = Folder::new();
    let mut service = folder.start(LIMITS, &[]);
    let log = service.follow_its_log();
    let config = folder.path("limits.yaml");
    fs::write(&config, format!("{LIMITS}\ndecision_log: {{keys: hashed}}\n")).unwrap();
    service.signal(Signal::HUP);
    until("the refusal", || {
        let log = log.lock().unwrap().clone();
        if log.contains("decision_log") { Ok(()) } else { Err(log) }
    });
}

#[test]
fn a_log_on_standard_output_is_lines_and_nothing_else() {
    let output = File::new("out", "");
    let socket = tempfile::tempdir().unwrap();
    let path = socket.path().join("http");
    let mut child = binary()
        .args(["serve", "--decision-log", "-", "--drain", "0s", "--listen"])
        .arg(format!("unix:{}", path.display()))
        .stdout(fs::File::create(output.path()).unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    use std::io::{Read as _, Write as _};
    let mut stream = until("it listens", || std::os::unix::net::UnixStream::connect(&path));
    let body = r#"{"limit":"demo","key":"a"}"#;
    write!(stream, "POST /v1/check HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    let log = lines(Path::new(output.path()));
    assert_eq!((log.len(), &log[0]["key"]), (1, &json!("a")));
}

/// A key over Redis' protocol may be any bytes.
#[cfg(feature = "resp")]
#[test]
fn a_key_that_is_not_text_is_written_in_hexadecimal() {
    use std::io::{Read as _, Write as _};
    let folder = Folder::new();
    let service = folder.start(LIMITS, &["--resp", "127.0.0.1:0"]);
    let mut stream = std::net::TcpStream::connect(service.address_of("resp")).unwrap();
    stream.write_all(b"*3\r\n$8\r\nSG.CHECK\r\n$4\r\nmail\r\n$3\r\n\xff\n\x00\r\n").unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    let log = stopped(service, &folder.path("log"));
    assert_eq!(
        (log.len(), &log[0]["key"], &log[0]["key_bytes"]),
        (1, &Value::Null, &json!("ff0a00"))
    );
}

#[cfg(feature = "envoy")]
#[test]
fn rules_of_envoy_have_lines_too() {
    let folder = Folder::new();
    let (rules, log) = (folder.path("rules"), folder.path("log"));
    fs::create_dir(&rules).unwrap();
    let rule = "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    fs::write(rules.join("shop.yaml"), rule).unwrap();
    let (rules, path) = (rules.to_str().unwrap(), log.to_str().unwrap());
    let args = ["--config", rules, "--decision-log", path, "--drain", "0s"];
    let service = crate::envoy::start(&[], &args);
    let request = json!({"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]});
    for status in [200, 429] {
        assert_eq!(service.post("/json", request.to_string()).status, status);
    }
    let log = stopped(service, &log);
    let answers: Vec<_> = log.iter().map(|line| line["allowed"].as_bool().unwrap()).collect();
    assert_eq!(answers, [true, false], "{log:?}");
}
