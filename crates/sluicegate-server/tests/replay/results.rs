//! Tests the results of a replay: the denied keys, the units they need, and the limits that fit.

use serde_json::Value;

use crate::support::{Folder, LOG, json, numbers, refusal, replay, said, sluicegate};

fn access(hosts: &[&str]) -> String {
    let line = |(second, host): (usize, &&str)| {
        format!("{host} - - [01/Nov/2024:05:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    hosts.iter().enumerate().map(line).collect()
}

#[test]
fn one_client_with_many_addresses_and_ports_is_one_key() {
    let folder = Folder::new();
    let v6: Vec<_> = (1..=5).map(|last| format!("2001:db8:1:2::{last}")).collect();
    let ports: Vec<_> = (1..=5).map(|last| format!("192.0.2.1:500{last}")).collect();
    let file = |hosts: &[String]| {
        folder.file("access.log", access(&hosts.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    for hosts in [&v6, &ports] {
        let log = file(hosts);
        assert_eq!(numbers(&replay(&log, &["fixed_window 2/h"])["policies"][0]), [5, 2, 3, 1, 1]);
    }
    let log = file(&v6);
    let log = log.to_str().unwrap();
    let counts = |more: &[&str]| {
        let arguments = ["--log", log, "--format", "json"];
        let report = json(&sluicegate(&[&arguments[..], more].concat()));
        report["keys"].as_u64().unwrap()
    };
    assert_eq!(counts(&["--policy", "gcra 1/s", "--ipv6-prefix", "128"]), 5);
    assert_eq!(counts(&["--policy", "gcra 1/s", "--key", "host"]), 5);
    let config = folder
        .file("limits.yaml", "http: {ipv6_prefix: 127}\nlimits: {site: {policies: [gcra 1/s]}}\n");
    let config = ["--config", config.to_str().unwrap(), "--limit", "site"];
    assert_eq!(counts(&config), 3);
    assert_eq!(counts(&[&config[..], &["--ipv6-prefix", "48"]].concat()), 1);
    let message = refusal(&["--log", log, "--policy", "gcra 1/s", "--ipv6-prefix", "129"]);
    assert!(message.contains("0..=128"), "{message}");
}

#[test]
fn a_log_without_durations_leaves_permits_out_with_status_2() {
    let folder = Folder::new();
    let log = folder.file("one.log", access(&["192.0.2.1"]));
    let log = log.to_str().unwrap();
    let message = refusal(&["--log", log, "--policy", "concurrency 2 hold 30s"]);
    assert!(
        message.contains(
            "`concurrency 2 hold 30s` counts requests in flight, but the log has no durations"
        ),
        "{message}"
    );
    assert!(message.contains("--fields duration="), "{message}");

    let config = folder.file(
        "limits.yaml",
        "limits: {jobs: {policies: [concurrency 2 hold 30s, fixed_window 5/h]}}\n",
    );
    let config = config.to_str().unwrap();
    let output =
        sluicegate(&["--log", log, "--config", config, "--limit", "jobs", "--format", "json"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains(
            "`concurrency 2 hold 30s` counts requests in flight, but the log has no durations"
        ),
        "{message}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let policies = report["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 1);
    assert_eq!(policies[0]["policy"], "fixed_window 5/h");
    assert_eq!(numbers(&policies[0]), [1, 1, 0, 1, 0]);
}

/// Four requests of one client, in the order in which they end. They start at 1, 2, 3 and 4 s, and
/// take 3, 3, 1 and 3 s. So the last one starts at the instant at which two others end.
const LASTING: [(u32, u32); 4] = [(4, 3), (4, 1), (5, 3), (7, 3)];

#[test]
fn a_log_with_durations_plays_permits_from_the_start_of_a_request_to_its_end() {
    let folder = Folder::new();
    let log = |name: &str, line: &dyn Fn(u32, u32) -> String| {
        let lines: String = LASTING.iter().map(|(end, lasts)| line(*end, *lasts) + "\n").collect();
        folder.file(name, lines).to_str().unwrap().to_owned()
    };
    let own = log("own.jsonl", &|end, lasts| {
        format!(r#"{{"at":"2024-11-01T05:00:{end:02}Z","who":"alice","took":{{"ms":{lasts}000}}}}"#)
    });
    let seconds = log("seconds.jsonl", &|end, lasts| {
        format!(r#"{{"at":"2024-11-01T05:00:{end:02}Z","who":"alice","took":"{lasts}s"}}"#)
    });
    let starts = log("starts.jsonl", &|end, lasts| {
        let start = end - lasts;
        format!(r#"{{"at":"2024-11-01T05:00:{start:02}Z","who":"alice","took":{lasts}}}"#)
    });
    let nginx = log("nginx.json", &|end, lasts| {
        format!(
            r#"{{"msec":"17304372{end:02}.000","remote_addr":"192.0.2.1","request_time":"{lasts}.000"}}"#
        )
    });
    for (log, fields) in [
        (&own, &["--fields", "time=at,key=who,duration_ms=took.ms"][..]),
        (&seconds, &["--fields", "time=at,key=who,duration=took"]),
        (&starts, &["--fields", "start=at,key=who,duration=took"]),
        (&nginx, &[]),
    ] {
        let arguments = ["--log", log, "--format", "json", "--policy"];
        let specs = ["concurrency 1 hold 30s", "concurrency 2 hold 1s", "concurrency 3 hold 30s"];
        let report = json(&sluicegate(&[&arguments[..], &specs, fields].concat()));
        let denied: Vec<_> = (0..3).map(|policy| numbers(&report["policies"][policy])[2]).collect();
        assert_eq!(denied, [2, 1, 0], "{log}");
    }
}

#[test]
fn requests_without_a_duration_among_others_release_their_permits_immediately() {
    let folder = Folder::new();
    let lines = [
        r#"{"start":"2024-11-01T05:00:01Z","key":"alice","duration":9}"#,
        r#"{"start":"2024-11-01T05:00:02Z","key":"alice"}"#,
        r#"{"start":"2024-11-01T05:00:03Z","key":"bob"}"#,
        r#"{"start":"2024-11-01T05:00:04Z","key":"bob","duration":9}"#,
    ];
    let log = folder.file("some.jsonl", lines.join("\n"));
    let (log, fields) = (log.to_str().unwrap(), "start=start,key=key,duration=duration");
    let policy = ["--policy", "concurrency 1 hold 30s"];
    let arguments = ["--log", log, "--format", "json", "--fields", fields];
    let output = sluicegate(&[&arguments[..], &policy].concat());
    assert!(
        said(&output).starts_with("note: 2 of 4 requests have no duration"),
        "{}",
        said(&output)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(numbers(&report["policies"][0]), [4, 3, 1, 2, 1]);
}

#[test]
fn denied_keys_are_listed_with_their_worst_minute_and_what_they_need() {
    let arguments =
        ["--log", LOG, "--format", "json", "--policy", "sliding_log 10/min", "--top", "2"];
    let report = json(&sluicegate(&arguments));
    assert_eq!(
        report["policies"][0]["denied_most"],
        serde_json::json!([
            {
                "key": "130.237.218.86", "requests": 357, "allowed": 73, "denied": 284,
                "worst_minute": {"time": "2015-05-20T01:05:00Z", "denied": 65},
                "needed": "sliding_log 75/min",
            },
            {
                "key": "75.97.9.59", "requests": 273, "allowed": 54, "denied": 219,
                "worst_minute": {"time": "2015-05-18T08:05:00Z", "denied": 98},
                "needed": "sliding_log 108/min",
            },
        ])
    );
    let none = json(&sluicegate(&[&arguments[..7], &["0"]].concat()));
    assert_eq!(none["policies"][0]["denied_most"], serde_json::json!([]));
    assert_eq!(none["policies"][0]["denied"], report["policies"][0]["denied"]);
    for wrong in ["--top=1001", "--top=-1", "--top=all"] {
        let message = refusal(&["--log", LOG, "--policy", "gcra 1/s", wrong]);
        assert!(message.contains("0 to 1000"), "{message}");
    }
}

#[test]
fn a_suggestion_is_what_a_replay_of_it_denies() {
    let report = json(&sluicegate(&["--log", LOG, "--format", "json", "--suggest"]));
    // The argument after `--suggest` may be an option instead of its value.
    assert_eq!(json(&sluicegate(&["--log", LOG, "--suggest", "--format", "json"])), report);
    assert_eq!(report["policies"], serde_json::json!([]));
    let suggest = &report["suggest"];
    assert_eq!(suggest["deny_at_most"], "1% of requests");
    let limits = suggest["limits"].as_array().unwrap();
    let specs: Vec<_> = limits.iter().map(|limit| limit["spec"].as_str().unwrap()).collect();
    assert_eq!(specs.len(), 6, "{specs:?}");
    let played = replay(std::path::Path::new(LOG), &specs);
    for (limit, played) in limits.iter().zip(played["policies"].as_array().unwrap()) {
        assert_eq!(limit["denied"], played["denied"], "{limit}");
        assert_eq!(limit["keys_denied"], played["keys_denied"], "{limit}");
        assert!(played["denied"].as_u64().unwrap() <= 100, "{limit}");
    }
    let keys =
        json(&sluicegate(&["--log", LOG, "--format", "json", "--suggest", "deny 2% of keys"]));
    for limit in keys["suggest"]["limits"].as_array().unwrap() {
        assert!(limit["keys_denied"].as_u64().unwrap() * 100 <= 2 * 1_753, "{limit}");
    }
    let message = refusal(&["--log", LOG, "--suggest", "few"]);
    assert!(message.contains("write `N% of requests` or `N% of keys`"), "{message}");
}

#[test]
fn every_output_leads_with_the_answer() {
    let output = |more: &[&str]| {
        let output = sluicegate(&[&["--log", LOG][..], more].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let answer = "sliding_log 10/min would have denied 1,729 of 10,000 requests (17.3 %), from 79 of 1,753 keys.";
    let policy = ["--policy", "sliding_log 10/min"];
    assert!(output(&policy).contains(&format!("\n\n{answer}\n\n")));
    let page = output(&[&policy[..], &["--format", "html"]].concat());
    assert!(page.contains(&format!("</h1>\n<p class=\"answer\">{answer}</p>")));
    let several = output(&["--policy", "sliding_log 10/min", "gcra 1000/s"]);
    let fewest = "gcra 1000/s would have denied none of 10,000 requests.";
    assert!(several.contains(&format!("\n{answer}\n{fewest}\n")), "{several}");
    let suggested = output(&["--suggest"]);
    assert!(suggested.contains(
        "\nTo deny at most 1% of requests, allow each key 3 a second, 57 a minute or 57 an hour.\n"
    ));
}
