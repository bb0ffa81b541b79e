//! Tests the formats of the log.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{File, Service, binary};

const FREE: &str = "127.0.0.1:0";

/// Returns the events in a log of JSON objects. Notes of the command line are left out.
fn events(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the events in a log whose format is JSON. Each has a message, and other lines have one of three prefixes.
pub(crate) fn events_of_json(log: &str) -> Vec<Value> {
    let is_other =
        |line: &str| ["listening: ", "note: ", "error: "].iter().any(|it| line.starts_with(it));
    for line in log.lines().filter(|line| !is_other(line)) {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line} in {log}"));
        assert!(event["message"].as_str().is_some_and(|it| !it.is_empty()), "{line}");
    }
    events(log)
}

#[test]
fn json_has_an_object_for_each_event() {
    let file = File::new("limits.yaml", "limits: {user: {policies: [gcra 1/h burst 1]}}");
    let mut service = Service::start_with(
        &[("RUST_LOG", "info,sluicegate::decisions=debug")],
        &["--config", file.path(), "--log-format", "json"],
    );
    let key = "a\n\u{1b}[2J\u{202e}\"";
    for expected in [200, 429] {
        assert_eq!(service.call("check", "user", key, &serde_json::json!({})).status, expected);
    }
    service.signal(Signal::TERM);
    let (_, log) = service.wait();
    assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log}");
    let events = events_of_json(&log);
    let decided: Vec<&Value> =
        events.iter().filter(|event| event["target"] == "sluicegate::decisions").collect();
    let [allowed, denied] = decided[..] else { panic!("{log}") };
    assert_eq!((&allowed["message"], &denied["message"]), (&"allowed".into(), &"denied".into()));
    assert_eq!((&denied["limit"], &denied["binding"]), (&"user".into(), &"gcra".into()));
    assert_eq!(denied["key"], key);
    assert_eq!(denied["level"], "DEBUG");
}

#[test]
fn the_option_replaces_the_variable_of_the_incumbent() {
    let start = |variable: &str, more: &[&str]| {
        let mut command = binary();
        let ports = ["--grpc", FREE, "--http", FREE, "--debug", FREE, "--metrics", FREE];
        command.arg("envoy").args(ports).args(more).env("LOG_FORMAT", variable);
        command.args(["--drain", "0s"]);
        let mut service = Service::of(command);
        service.signal(Signal::TERM);
        service.wait().1
    };
    let is_json = |log: &str| !events(log).is_empty();
    assert!(!events_of_json(&start("json", &[])).is_empty());
    assert!(!is_json(&start("text", &[])));
    assert!(!is_json(&start("json", &["--log-format", "text"])));
    assert!(!events_of_json(&start("text", &["--log-format", "json"])).is_empty());
}
