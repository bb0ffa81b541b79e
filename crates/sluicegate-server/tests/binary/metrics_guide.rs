//! Tests that the guide, the alerts and the board name the metrics of the service.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;
use sluicegate_testkit::servers::{Authority, fresh_prefix, shared};

use crate::metrics::{assert_promtool_passes, promtool};
use crate::support::{Client, File, Service, binary};

/// The labels of each metric.
type Metrics = BTreeMap<String, BTreeSet<String>>;

const FREE: &str = "127.0.0.1:0";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Adds the metrics of a page: those with samples, and those that are only declared.
fn add(page: &str, metrics: &mut Metrics) {
    assert_promtool_passes(page);
    let mut family = String::new();
    for line in page.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            family = declared.split(' ').next().unwrap().to_owned();
            metrics.entry(family.clone()).or_default();
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&family), "{line} after {family}");
            let labels = line.split_once('{').map_or("", |it| it.1.rsplit_once('}').unwrap().0);
            // No value of these scrapes has a comma or an equals sign, except for `features`.
            let names = labels.split("\",").filter_map(|label| label.split_once("=\""));
            let names = names.map(|it| it.0.to_owned()).filter(|name| name != "le");
            metrics.get_mut(&family).unwrap().extend(names);
        }
    }
}

/// Scrapes services with every kind of store, layer and listener.
fn scraped() -> Metrics {
    let mut metrics = Metrics::new();
    let authority = Authority::new().unwrap();
    let certificate = authority.certificate("metrics", &["127.0.0.1"]).unwrap();
    let server = format!(
        r#"store: "{}"
redis: {{prefix: "{}"}}
fallback: {{processes: 2}}
listeners:
  http: {{address: "{FREE}"}}
  resp: {{address: "{FREE}", tls: {{cert: {}, key: {}}}}}
clients: [{{name: shop, token_env: SHOP_TOKEN, may: [check]}}]
limits:
  api: {{policies: [gcra 1/s burst 1], leases: true, deny_cache: true, on_store_failure: local}}
  jobs: {{policies: [gcra 1/s burst 9, gcra 1/s shadow as s], retry_unknown: true, ban: 2/1min for 1min}}
"#,
        shared().unwrap().url(),
        fresh_prefix("bin"),
        certificate.certificate_file().display(),
        certificate.key_file().display(),
    );
    let file = File::new("limits.yaml", &server);
    let service = Service::start_with(
        &[
            ("SLUICEGATE_ADMIN_TOKEN", "an-admin-token-that-is-long-enough-0123456789"),
            ("SHOP_TOKEN", "a-token-of-the-shop-that-is-long-enough-0123456789"),
        ],
        &[
            "--config",
            file.path(),
            "--grpc",
            FREE,
            "--metrics",
            FREE,
            "--decision-log",
            "/dev/null",
        ],
    );
    let scrape = |service: &Service| {
        let mut client = Client::connect(service.address_of("metrics")).unwrap();
        client.get("/metrics").unwrap().body
    };
    add(&scrape(&service), &mut metrics);
    let embedded = Service::start(&["--metrics", FREE]);
    add(&scrape(&embedded), &mut metrics);
    let mut command = binary();
    let ports = ["--grpc", FREE, "--http", FREE, "--debug", FREE, "--metrics", FREE];
    command.arg("envoy").args(ports);
    // No control plane listens there, which is a state too.
    command.envs([
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "127.0.0.1:1"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
    ]);
    add(&scrape(&Service::of(command)), &mut metrics);
    metrics
}

/// Returns the metrics of the guide's table.
fn documented() -> Metrics {
    let guide = read("docs/metrics.md");
    let (_, table) = guide.split_once("| metric | unit | labels | meaning |\n").unwrap();
    let mut metrics = Metrics::new();
    for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [names, unit, .., meaning] = cells[..] else { panic!("{row}") };
        assert!(!unit.is_empty() && !meaning.is_empty(), "{row}");
        let named = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let labels = if cells.len() == 4 { named(cells[2]) } else { Vec::new() };
        for name in named(names) {
            let known = metrics.insert(name, labels.iter().cloned().collect());
            assert!(known.is_none(), "a metric is there twice: {row}");
        }
    }
    metrics
}

/// Labels of series that only exist once something has happened.
const LATER: [(&str, &[&str]); 4] = [
    ("sluicegate_breaker_open", &["node"]),
    ("sluicegate_quota_assigned_per_second", &["limit"]),
    ("sluicegate_quota_needed_per_second", &["limit"]),
    ("sluicegate_quota_unassigned_per_second", &["limit"]),
];

#[test]
fn the_guide_lists_all_metrics_with_their_labels_and_no_others() {
    let mut scraped = scraped();
    for (name, labels) in LATER {
        let of_metric = scraped.get_mut(name).unwrap_or_else(|| panic!("no {name}"));
        of_metric.extend(labels.iter().map(|label| (*label).to_owned()));
    }
    let documented = documented();
    for (name, labels) in &scraped {
        assert_eq!(documented.get(name), Some(labels), "{name}");
    }
    let missing: Vec<_> = documented.keys().filter(|name| !scraped.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?} are in no scrape");
}

/// Returns the names of our metrics in expressions. Names with a colon are those of recording rules.
fn names(expressions: &str) -> BTreeSet<String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "_:".contains(character);
    let words = expressions.split(|character| !is_name(character));
    let ours = words.filter(|word| word.starts_with("sluicegate_") && !word.contains(':'));
    ours.map(str::to_owned).collect()
}

/// Returns the metric of a series: a histogram has several.
fn metric_of(name: &str, metrics: &Metrics) -> bool {
    let suffixes = ["_bucket", "_sum", "_count"];
    let of_histogram = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
    metrics.contains_key(name)
        || of_histogram.is_some_and(|name| name.ends_with("_seconds") && metrics.contains_key(name))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

/// Returns the expressions of a board's panels and annotations, with values in place of its variables.
fn expressions(board: &Value, found: &mut Vec<String>) {
    match board {
        Value::Object(fields) => {
            if let Some(Value::String(expression)) = fields.get("expr") {
                found.push(expression.replace("$__rate_interval", "5m").replace(['$'], ""));
            }
            fields.values().for_each(|value| expressions(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn alerts_and_board_name_metrics_of_the_guide() {
    let metrics = documented();
    let alerts = read("deploy/prometheus/alerts.yaml");
    let board = read("deploy/grafana/sluicegate.json");
    let tested = read("deploy/prometheus/alerts_test.yaml");
    for text in [&alerts, &board, &tested] {
        let names = names(text);
        assert!(names.len() > 5, "{names:?}");
        let unknown: Vec<_> = names.iter().filter(|name| !metric_of(name, &metrics)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
    // Operators look at panels, and not at lists of metrics.
    let shown = names(&board);
    for name in metrics.keys() {
        let is_shown = shown.iter().any(|of| {
            of.strip_prefix(name.as_str()).is_some_and(|rest| ["", "_bucket"].contains(&rest))
        });
        assert!(is_shown, "no panel shows {name}");
    }
}

#[test]
fn promtool_accepts_the_rules_and_the_expressions_of_the_board() {
    let folder = root().join("deploy/prometheus");
    run(promtool().args(["check", "rules", "alerts.yaml"]).current_dir(&folder));
    run(promtool().args(["test", "rules", "alerts_test.yaml"]).current_dir(&folder));
    let board: Value = serde_json::from_str(&read("deploy/grafana/sluicegate.json")).unwrap();
    let mut found = Vec::new();
    expressions(&board, &mut found);
    assert!(found.len() > 50, "{}", found.len());
    let rules = found.iter().enumerate().map(|(number, expression)| {
        let expression = serde_json::to_string(expression).unwrap();
        format!("      - {{record: \"board:{number}\", expr: {expression}}}\n")
    });
    let rules = format!("groups:\n  - name: board\n    rules:\n{}", rules.collect::<String>());
    let file = File::new("board.yaml", &rules);
    run(promtool().args(["check", "rules", file.path()]));
}

#[test]
fn every_alert_is_tested_and_names_a_section_of_the_guide() {
    let alerts = read("deploy/prometheus/alerts.yaml");
    let tested = read("deploy/prometheus/alerts_test.yaml");
    let guide = read("docs/operation.md");
    let sections: BTreeSet<String> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|title| title.to_lowercase().replace(' ', "-"))
        .collect();
    let mut alerts = alerts.split("- alert: ").skip(1).peekable();
    assert!(alerts.peek().is_some());
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        let fires = tested.split("- eval_time:").skip(1).any(|test| {
            test.contains(&format!("alertname: {name}\n")) && test.contains("exp_labels")
        });
        assert!(fires, "no test makes {name} fire");
        let runbook = alert.split_once("runbook: docs/operation.md#").unwrap().1;
        let section = runbook.lines().next().unwrap();
        assert!(sections.contains(section), "{name}: {section} is no section of {sections:?}");
    }
}
