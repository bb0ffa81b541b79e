//! Tests metrics and recent decisions of the service, for each limit.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use sluicegate_testkit::servers::{shared, tools_folder};

use crate::support::{File, Reply, Service, own_store};

const TWO: &str = r#"
limits:
  global: {policies: ["token_bucket 1000/s burst 5000"]}
  user: {policies: ["token_bucket 1/h burst 1"]}
"#;

fn check(service: &Service, limits: &[(&str, &str)]) -> Reply {
    let limits: Vec<Value> =
        limits.iter().map(|(limit, key)| json!({"limit": limit, "key": key})).collect();
    service.post("/v1/check", json!({"limits": limits}).to_string())
}

/// Regression test: a denial of `global + user` named neither the user nor the limit that refused.
#[test]
fn a_denial_of_two_limits_names_each_key_and_the_limit_that_refused() {
    let file = File::new("limits.yaml", TWO);
    let service = Service::start(&["--config", file.path()]);
    let two = [("global", "everybody"), ("user", "alice")];
    assert_eq!([(); 2].map(|()| check(&service, &two).status), [200, 429]);
    let recent = service.get("/v1/recent").json()["recent"].clone();
    let row = |index: usize| {
        let row = &recent[index];
        let names = ["limit", "key", "allowed", "binding", "binding_limit", "together"];
        Value::from(names.map(|name| row[name].clone()).to_vec())
    };
    assert_eq!(
        [0, 1, 2, 3].map(row),
        [
            json!(["global", "everybody", false, "token_bucket", "user", ["user"]]),
            json!(["user", "alice", false, "token_bucket", "user", ["global"]]),
            json!(["global", "everybody", true, null, null, ["user"]]),
            json!(["user", "alice", true, null, null, ["global"]]),
        ]
    );
    let page = service.get("/metrics").body;
    for line in [
        r#"sluicegate_decisions_total{limit="global",policy="",outcome="denied_together"} 1"#,
        r#"sluicegate_decisions_total{limit="global",policy="token_bucket",outcome="denied"} 0"#,
        r#"sluicegate_decisions_total{limit="user",policy="token_bucket",outcome="denied"} 1"#,
        r#"sluicegate_decisions_together_total{limit="user"} 2"#,
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    assert!(!page.contains("global + user") && !page.contains("alice"), "{page}");
}

/// Regression test: the key of the first limit was in the row of the limit that blocks.
#[test]
fn a_blocked_key_is_listed_with_its_own_limit() {
    let text = TWO.replace("burst 1\"]}", "burst 1\"], block: [mallory], allow: [root]}");
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path()]);
    assert_eq!(check(&service, &[("global", "everybody"), ("user", "mallory")]).status, 403);
    assert_eq!(check(&service, &[("global", "everybody"), ("user", "root")]).status, 200);
    let recent = service.get("/v1/recent").json()["recent"].clone();
    let rows: Vec<Value> = recent
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["limit"], row["key"], row["allowed"], row["source"]]))
        .collect();
    assert_eq!(
        rows,
        [
            json!(["global", "everybody", true, "store"]),
            json!(["user", "root", true, "bypass"]),
            json!(["user", "mallory", false, "bypass"]),
        ]
    );
}

#[test]
fn the_log_has_a_line_for_each_limit_of_a_decision() {
    let file = File::new("limits.yaml", TWO);
    let filter = ("RUST_LOG", "info,sluicegate::decisions=debug");
    let mut service = Service::start_with(&[filter], &["--config", file.path()]);
    let two = [("global", "everybody"), ("user", "alice\n\u{1b}[2Jx")];
    assert_eq!([(); 2].map(|()| check(&service, &two).status), [200, 429]);
    service.signal(rustix::process::Signal::TERM);
    let (_, log) = service.wait();
    let lines: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("sluicegate::decisions: "))
        .map(|it| it.1)
        .collect();
    let key = r#"key="alice\n\u{1b}[2Jx""#;
    assert_eq!(
        lines,
        [
            r#"allowed limit="global" key="everybody" source="store" together="user""#.to_owned(),
            format!(r#"allowed limit="user" {key} source="store" together="global""#),
            r#"denied limit="global" key="everybody" source="store" binding="token_bucket" binding_limit="user" together="user""#.to_owned(),
            format!(
                r#"denied limit="user" {key} source="store" binding="token_bucket" binding_limit="user" together="global""#
            ),
        ],
        "{log}"
    );
}

#[test]
fn reaching_the_maximum_of_series_is_logged_once() {
    let limits: String =
        (0..20).map(|number| format!("  l{number}: {{policies: [gcra 1/s]}}\n")).collect();
    let file = File::new("limits.yaml", &format!("metrics: {{max_series: 50}}\nlimits:\n{limits}"));
    let mut service = Service::start(&["--config", file.path()]);
    for number in 0..20 {
        let body = json!({"limit": format!("l{number}"), "key": "k"}).to_string();
        assert_eq!(service.post("/v1/check", body).status, 200);
    }
    let page = service.get("/metrics").body;
    assert!(
        page.contains(r#"decisions_total{limit="other",policy="",outcome="allowed"} 13"#),
        "{page}"
    );
    service.signal(rustix::process::Signal::TERM);
    let (_, log) = service.wait();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("max_series")).collect();
    let [line] = told[..] else { panic!("{log}") };
    let said = "the metrics of limits have 50 series at most, so 13 limits and further ones count together as \
                limit=\"other\": set `metrics.max_series` to a larger number";
    assert!(line.ends_with(said), "{line}");
}

#[test]
fn metrics_are_plain_unless_the_client_prefers_openmetrics() {
    let service = Service::start(&[]);
    let get = |accept: &str| service.send("GET", "/metrics", &[("Accept", accept)], b"");
    for accept in ["text/plain", "*/*", "text/plain;version=0.0.4", "text/html", "nonsense,,;"] {
        let reply = get(accept);
        let plain = "text/plain; version=0.0.4; charset=utf-8";
        assert_eq!(reply.field("content-type"), Some(plain), "{accept}");
        assert!(!reply.body.contains("# EOF"));
        assert!(reply.body.contains("# TYPE sluicegate_decisions_total counter\n"));
        assert!(reply.body.contains("# TYPE sluicegate_build_info gauge\n"));
    }
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let reply = get(prometheus);
    assert_eq!(
        reply.field("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(reply.body.ends_with("# EOF\n"));
    assert!(reply.body.contains("# TYPE sluicegate_decisions counter\n"));
}

/// Asserts that `promtool check metrics` accepts a scrape.
pub(crate) fn assert_promtool_passes(page: &str) {
    let mut command = promtool();
    command.args(["check", "metrics"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}\n{page}");
}

/// Returns a command of Prometheus' tool.
pub(crate) fn promtool() -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([tools_folder()])
        .map(|folder| folder.join("promtool"))
        .find(|program| program.is_file());
    let promtool: PathBuf = found.unwrap_or_else(|| {
        panic!("there is no promtool: run `cargo xtask setup`, or install the package `prometheus`")
    });
    Command::new(promtool)
}

/// Covers both stores, and every layer.
#[test]
fn promtool_finds_nothing_to_complain_about() {
    let limits = r#"limits:
  api: {policies: [gcra 1/s burst 1], leases: true, deny_cache: true, on_store_failure: local}
  Log.in:per/account@x: {policies: [gcra 1/s burst 1, gcra 9/s shadow as s], ban: 1/1min for 15min}
  other: {policies: [concurrency 1 hold 30s queue 5]}
"#;
    let server = own_store(shared().unwrap().url())
        + "fallback: {processes: 2}\nmetrics: {max_series: 20}\n"
        + limits;
    let embedded = limits.replace(", leases: true, deny_cache: true, on_store_failure: local", "");
    for text in [server, embedded] {
        let file = File::new("limits.yaml", &text);
        let service = Service::start(&["--config", file.path()]);
        assert_promtool_passes(&service.get("/metrics").body);
        for limit in ["api", "Log.in:per/account@x", "other"] {
            for _ in 0..3 {
                check(&service, &[(limit, "k\"\n\\")]);
            }
        }
        check(&service, &[("api", "a"), ("Log.in:per/account@x", "b")]);
        assert_promtool_passes(&service.get("/metrics").body);
    }
}
