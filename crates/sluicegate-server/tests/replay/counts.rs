//! Compares replays with counts from a simple reference implementation.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::support::{
    Folder, LOG, json, numbers, refusal, replay, said, sluicegate, sluicegate_reading,
};

/// A request of the log: the seconds since the month began, and its host. Windows up to a day align
/// as they do from the epoch.
type Request = (u64, String);

/// Returns the log's requests in the order of the file, parsed independently of the program.
fn requests() -> Vec<Request> {
    let log = String::from_utf8(std::fs::read(LOG).unwrap()).unwrap();
    let read = |line: &str| {
        let (host, rest) = line.split_once(' ').unwrap();
        let (_, rest) = rest.split_once('[').unwrap();
        let (stamp, rest) = rest.split_once(" +0000]").unwrap();
        assert!(rest.starts_with(" \""));
        let (day, time) = stamp.split_once("/May/2015:").unwrap();
        let seconds = time.split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
        (day.parse::<u64>().unwrap() * 86_400 + seconds, host.to_owned())
    };
    log.lines().map(read).collect()
}

/// The decisions of a policy on one host's requests, given their times.
type Judge = Box<dyn FnMut(u64) -> bool>;

type NewJudge = fn() -> Judge;

/// Plays the requests in order of time through one reference policy per host, and counts.
fn counted(mut requests: Vec<Request>, judge: impl Fn() -> Judge) -> [u64; 5] {
    requests.sort_by_key(|(time, _)| *time);
    let mut judges: HashMap<&str, Judge> = HashMap::new();
    let mut denied_hosts = HashSet::new();
    let mut denied = 0;
    for (time, host) in &requests {
        if !judges.entry(host).or_insert_with(&judge)(*time) {
            denied += 1;
            denied_hosts.insert(host);
        }
    }
    let all = requests.len() as u64;
    [all, all - denied, denied, judges.len() as u64, denied_hosts.len() as u64]
}

fn sliding_log(tiers: &'static [(usize, u64)]) -> Judge {
    let mut admitted: VecDeque<u64> = VecDeque::new();
    Box::new(move |now| {
        let fits = |&(limit, window): &(usize, u64)| {
            admitted.iter().filter(|&&time| time + window > now).count() < limit
        };
        let passes = tiers.iter().all(fits);
        if passes {
            admitted.push_back(now);
        }
        passes
    })
}

fn fixed_window(limit: u64, window: u64, is_aligned: bool) -> Judge {
    let mut current: Option<(u64, u64)> = None;
    Box::new(move |now| {
        let fresh = || (if is_aligned { now - now % window } else { now }, 0);
        let (start, used) = current.filter(|(start, _)| now < start + window).unwrap_or_else(fresh);
        if used < limit {
            current = Some((start, used + 1));
        }
        used < limit
    })
}

/// Returns a bucket that regains a unit every `every` seconds.
fn bucket(every: u64, burst: u64) -> Judge {
    let (mut deficit, mut newest) = (0, 0);
    Box::new(move |now| {
        let left = u64::saturating_sub(deficit, now - newest);
        let passes = left + every <= burst * every;
        if passes {
            (deficit, newest) = (left + every, now);
        }
        passes
    })
}

fn two_cells(limit: u64, window: u64) -> Judge {
    let mut cells: HashMap<u64, u64> = HashMap::new();
    Box::new(move |now| {
        let (cell, into) = (now / window, now % window);
        let count = |cell| cells.get(&cell).copied().unwrap_or(0);
        let weighted = count(cell - 1) * (window - into) + (count(cell) + 1) * window;
        let passes = weighted <= limit * window;
        if passes {
            *cells.entry(cell).or_default() += 1;
        }
        passes
    })
}

#[test]
fn every_policy_counts_what_a_plain_count_of_the_log_gives() {
    let cases: [(&str, NewJudge); 8] = [
        ("sliding_log 10/min", || sliding_log(&[(10, 60)])),
        ("sliding_log 3/s and 40/h", || sliding_log(&[(3, 1), (40, 3_600)])),
        ("fixed_window 20/h", || fixed_window(20, 3_600, false)),
        ("fixed_window 20/h aligned", || fixed_window(20, 3_600, true)),
        ("token_bucket 10/min burst 20", || bucket(6, 20)),
        ("gcra 1/min burst 3", || bucket(60, 3)),
        ("sliding_counter 30/h", || two_cells(30, 3_600)),
        ("fixed_window 0/s", || Box::new(|_| false)),
    ];
    let report = replay(Path::new(LOG), &cases.map(|(spec, _)| spec));
    for (index, (spec, judge)) in cases.into_iter().enumerate() {
        let counts = &report["policies"][index];
        assert_eq!(counts["policy"], spec);
        assert_eq!(numbers(counts), counted(requests(), judge), "{spec}");
    }
}

#[test]
fn the_log_is_what_its_readme_says() {
    let requests = requests();
    let newest_before = requests.iter().scan(0, |newest, (time, _)| {
        let before = *newest;
        *newest = before.max(*time);
        Some(before)
    });
    let late =
        requests.iter().zip(newest_before).filter(|((time, _), before)| time < before).count();
    assert_eq!((requests.len(), late), (10_000, 9_448));
    let report = replay(Path::new(LOG), &["gcra 1/s"]);
    for (name, value) in
        [("lines", 10_000), ("malformed", 0), ("requests", 10_000), ("keys", 1_753)]
    {
        assert_eq!(report[name], value, "{name}");
    }
    assert_eq!(report["first"], "2015-05-17T10:05:00Z");
    assert_eq!(report["last"], "2015-05-20T21:05:59Z");
    let agents = ["--log", LOG, "--format", "json", "--policy", "gcra 1/s", "--key", "agent"];
    assert_eq!(json(&sluicegate(&agents))["keys"], 559);
}

#[test]
fn policies_of_a_limit_are_decided_together() {
    let folder = Folder::new();
    let config = folder.file(
        "limits.yaml",
        "limits:\n  site:\n    policies: [sliding_log 10/min as burst, fixed_window 20/d aligned as day]\n  \
         other: {policies: [gcra 1/s]}\n",
    );
    let config = config.to_str().unwrap();
    let report = json(&sluicegate(&[
        "--log", LOG, "--config", config, "--limit", "site", "--format", "json",
    ]));

    let mut requests = requests();
    requests.sort_by_key(|(time, _)| *time);
    let mut admitted: HashMap<&str, Vec<u64>> = HashMap::new();
    let (mut by_burst, mut by_day, mut by_both) = (0, 0, 0);
    for (now, host) in &requests {
        let times = admitted.entry(host).or_default();
        let burst = times.iter().filter(|&time| time + 60 > *now).count() >= 10;
        let day = times.iter().filter(|&time| time / 86_400 == now / 86_400).count() >= 20;
        by_burst += u64::from(burst);
        by_day += u64::from(day);
        by_both += u64::from(burst || day);
        if !burst && !day {
            times.push(*now);
        }
    }
    assert!(
        by_day > 0 && by_burst > 0 && by_both < by_burst + by_day,
        "{by_day} {by_burst} {by_both}"
    );
    assert_eq!(report["policies"][0]["name"], "burst");
    assert_eq!(report["policies"][0]["denied"], by_burst);
    assert_eq!(report["policies"][1]["policy"], "fixed_window 20/d aligned as day");
    assert_eq!(report["policies"][1]["denied"], by_day);
    assert_eq!(
        (&report["limit"]["name"], &report["limit"]["denied"]),
        (&"site".into(), &by_both.into())
    );

    let message = refusal(&["--log", LOG, "--config", config, "--limit", "sight"]);
    assert!(message.contains("`sight`") && message.contains("site, other"), "{message}");
}

#[test]
fn what_else_is_said_of_a_limit_is_left_out_with_a_note() {
    let folder = Folder::new();
    let played = |more: &str| {
        let limit = format!("limits: {{site: {{policies: [gcra 1/s]{more}}}}}");
        let config = folder.file("limits.yaml", limit);
        let config = config.to_str().unwrap();
        let output = sluicegate(&["--log", LOG, "--config", config, "--limit", "site"]);
        assert_eq!(output.status.code(), Some(0));
        let note = said(&output);
        (output.stdout, note)
    };
    let (report, note) = played("");
    assert_eq!(note, "");
    let (same, note) = played(", enabled: false, block: [10.0.0.1]");
    assert_eq!(
        note,
        "note: only the policies of limit `site` are played, without its `enabled: false`, `block`\n"
    );
    assert_eq!(same, report);
    let (_, note) = played(", allow: [10.0.0.1], overrides: [{key: 10.0.0.2, times: 2}]");
    assert!(note.ends_with(" `allow`, `overrides`\n"), "{note}");
}

#[test]
fn gzip_of_several_members_reads_as_the_plain_log() {
    let log = std::fs::read(LOG).unwrap();
    let mut compressed = Vec::new();
    for part in [&log[..1_000_003], &log[1_000_003..]] {
        let mut encoder = GzEncoder::new(&mut compressed, Compression::fast());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap();
    }
    let arguments = ["--log", "-", "--format", "json", "--policy", "sliding_log 10/min"];
    let plain = sluicegate_reading(&arguments, &log);
    assert_eq!(json(&plain)["requests"], 10_000);
    assert_eq!(sluicegate_reading(&arguments, &compressed).stdout, plain.stdout);

    let folder = Folder::new();
    let damaged = folder.file("access.log.gz", &compressed[..compressed.len() / 2]);
    let message = refusal(&["--log", damaged.to_str().unwrap(), "--policy", "gcra 1/s"]);
    assert!(message.contains("access.log.gz can't be read"), "{message}");
    assert!(!message.contains("after the gzip data"), "{message}");
    for more in [&b"\n"[..], b"\0\0\0", b"a whole line\n"] {
        let more = folder.file("access.log.gz", [&compressed, more].concat());
        let message = refusal(&["--log", more.to_str().unwrap(), "--policy", "gcra 1/s"]);
        let said = "access.log.gz can't be read: the gzip data is damaged: there is something after the gzip data";
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn json_lines_bring_their_own_keys_and_costs() {
    let folder = Folder::new();
    let log = folder.file(
        "requests.jsonl",
        "{\"time\":\"2026-01-01T00:00:01Z\",\"key\":\"a\",\"cost\":2}\n\
         {\"time\":1767225600,\"key\":\"a\",\"cost\":9}\n\
         {\"time\":1767225600500,\"key\":\"a\"}\n\
         {\"time\":1767225600.25,\"key\":\"b\",\"cost\":11}\n\
         {\"time\":1767225600.25,\"key\":\"b\",\"cost\":0}\n\
         [1]\n",
    );
    let log = log.to_str().unwrap();
    let arguments = [
        "--log",
        log,
        "--format",
        "json",
        "--policy",
        "fixed_window 10/h",
        "fixed_window 10/h cost 3",
    ];
    let report = json(&sluicegate(&arguments));
    assert_eq!((&report["format"], &report["key"]), (&"json".into(), &Value::Null));
    assert_eq!((&report["lines"], &report["malformed"]), (&6.into(), &2.into()));
    assert_eq!(report["malformed_lines"][0]["line"], 5);
    // Key `a` in order of time: of 10 units, 9 and 1 pass, and 2 don't. With a default cost of 3,
    // only 9 pass; 3 and 2 don't.
    assert_eq!(numbers(&report["policies"][0]), [4, 2, 2, 2, 2]);
    assert_eq!(numbers(&report["policies"][1]), [4, 1, 3, 2, 2]);

    let message = refusal(&["--log", log, "--policy", "gcra 1/s", "--key", "host+path"]);
    assert!(message.contains("`path`") && message.contains("--fields path=NAME"), "{message}");
}

#[test]
fn a_line_of_json_that_is_too_long_to_keep_says_so() {
    let folder = Folder::new();
    let line = |bytes: usize| format!("{{\"time\":1,\"key\":\"{}\"}}", "k".repeat(bytes - 19));
    let log = folder.file("log", format!("{}\n{}\n", line(65_537), line(65_536)));
    let report = replay(&log, &["gcra 1/s"]);
    assert_eq!((&report["format"], &report["requests"]), (&"json".into(), &1.into()));
    let why = "it is longer than 65536 bytes";
    assert_eq!(report["malformed_lines"], serde_json::json!([{"line": 1, "why": why}]));
}

#[test]
fn a_key_of_json_is_shown_as_it_is_whatever_joins_those_of_other_logs() {
    let folder = Folder::new();
    let log = folder.file("log", "{\"time\":1,\"key\":\"a\\nb\"}\n{\"time\":1,\"key\":\"a+b\"}\n");
    let report = replay(&log, &["fixed_window 0/s"]);
    let keys = report["policies"][0]["denied_most"].as_array().unwrap().iter();
    assert_eq!(keys.map(|most| &most["key"]).collect::<Vec<_>>(), ["a\nb", "a+b"]);
    let table = sluicegate(&["--log", log.to_str().unwrap(), "--policy", "fixed_window 0/s"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("\n  a\\nb  ") && table.contains("\n  a+b   "), "{table}");
}

#[test]
fn a_byte_order_mark_costs_no_line() {
    let folder = Folder::new();
    let access = "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let json = "{\"time\":1,\"key\":\"k\"}\n";
    for log in [access, json] {
        let report = |text: String| replay(&folder.file("log", text), &["fixed_window 0/s"]);
        assert_eq!(report(format!("\u{feff}{log}")), report(log.to_owned()));
    }
}

#[test]
fn a_cost_that_no_state_can_hold_is_an_error_and_no_denial() {
    let folder = Folder::new();
    let log = folder.file(
        "requests.jsonl",
        "{\"time\":1,\"key\":\"a\",\"cost\":9007199254740991}\n{\"time\":10,\"key\":\"a\"}\n",
    );
    let report = replay(&log, &["smooth 1/d start full"]);
    let policy = &report["policies"][0];
    assert_eq!((numbers(policy), &policy["errors"]), ([2, 1, 0, 1, 0], &1.into()));
    assert_eq!(policy["timeline"]["allowed"].as_array().unwrap().last(), Some(&1.into()));
    let table = sluicegate(&["--log", log.to_str().unwrap(), "--policy", "smooth 1/d start full"]);
    let table = String::from_utf8(table.stdout).unwrap();
    let said = "1 request can't be decided by smooth 1/d start full, neither allowed nor denied";
    assert!(table.contains(said), "{table}");
}

#[test]
fn lines_that_are_no_requests_are_counted_and_shown() {
    let folder = Folder::new();
    let log = folder.file(
        "access.log",
        b"\n\
          10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\r\n\
          10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"\n\
          10.0.0.1 - - [17/May/2015:10:05:03 +0000]\n\
          \xff\x1b[2J - - [17/May/2015:12:05:04 +0200] \"GET \x00\n\
          {\"time\":1,\"key\":\"k\"}\n\
          10.0.0.1 - - [today] \"GET / HTTP/1.1\" 200 1",
    );
    let output = sluicegate(&["--log", log.to_str().unwrap(), "--policy", "fixed_window 0/s"]);
    assert_eq!((output.status.code(), &*said(&output)), (Some(0), ""));
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, text) = text.split_once("access.log: ").unwrap();
    assert_eq!(
        text,
        "\
7 lines, 3 requests, 2 keys (ip)
from 2015-05-17T10:05:03Z to 2015-05-17T10:05:04Z
4 malformed lines left out
  line 1: it is blank
  line 4: no quote opens the request after the time
  line 6: it has fewer than three fields before the [time]
  line 7: its [time] isn't one from 1970 to 2255, such as [17/May/2015:10:05:03 +0000]

fixed_window 0/s would have denied 3 of 3 requests (100.0 %), from 2 of 2 keys.

policy            requests  allowed  denied  denied %  keys  keys denied
fixed_window 0/s         3        0       3     100.0     2            2

denied by fixed_window 0/s
  worst minute: 2015-05-17T10:05:00Z, 3 denied
  key            denied  requests  worst minute          denied in it  none denied by
  10.0.0.1            2         2  2015-05-17T10:05:00Z             2  fixed_window 2/s
  \\xff\\u{1b}[2J       1         1  2015-05-17T10:05:00Z             1  fixed_window 1/s
"
    );
}

#[test]
fn the_table_lines_up() {
    let arguments = [
        "--log",
        LOG,
        "--top",
        "2",
        "--policy",
        "sliding_log 10/min",
        "--policy",
        "gcra 5/s",
        "gcra 1000/s",
    ];
    let output = sluicegate(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, text) = text.split_once("apache_access.log: ").unwrap();
    assert_eq!(
        text,
        "\
10,000 lines, 10,000 requests, 1,753 keys (ip)
from 2015-05-17T10:05:00Z to 2015-05-20T21:05:59Z

sliding_log 10/min would have denied 1,729 of 10,000 requests (17.3 %), from 79 of 1,753 keys.
gcra 1000/s would have denied none of 10,000 requests.

policy              requests  allowed  denied  denied %   keys  keys denied
sliding_log 10/min    10,000    8,271   1,729      17.3  1,753           79
gcra 5/s              10,000    9,997       3      <0.1  1,753            1
gcra 1000/s           10,000   10,000       0       0.0  1,753            0

denied by sliding_log 10/min
  worst minute: 2015-05-18T08:05:00Z, 98 denied
  key             denied  requests  worst minute          denied in it  none denied by
  130.237.218.86     284       357  2015-05-20T01:05:00Z            65  sliding_log 75/min
  75.97.9.59         219       273  2015-05-18T08:05:00Z            98  sliding_log 108/min
  … 77 more keys

denied by gcra 5/s
  worst minute: 2015-05-18T08:05:00Z, 3 denied
  key         denied  requests  worst minute          denied in it  none denied by
  75.97.9.59       3       273  2015-05-18T08:05:00Z             3  gcra 5/s burst 7
"
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_change() {
    let folder = Folder::new();
    let directory = folder.0.path().to_str().unwrap();
    let policy = ["--policy", "gcra 1/s"];
    for (arguments, said) in [
        (vec!["--log", "missing.log", policy[0], policy[1]], "missing.log can't be read"),
        (vec!["--log", directory, policy[0], policy[1]], "directory"),
        (vec!["--log", LOG], "--policy"),
        (vec![policy[0], policy[1]], "--log"),
        (vec!["--log", LOG, "--config", "c.yaml"], "--limit"),
        (vec!["--log", LOG, "--limit", "l"], "--config"),
        (
            vec!["--log", LOG, "--config", "c.yaml", "--limit", "l", policy[0], policy[1]],
            "cannot be used with",
        ),
        (
            vec!["--log", LOG, "--config", "missing.yaml", "--limit", "l"],
            "missing.yaml: can't be read",
        ),
        (
            vec!["--log", LOG, "--policy", "token_bucket 100/s brust 200"],
            "                   ^^^^^",
        ),
        (vec!["--log", LOG, "--policy", "token_bucket", "10/s"], "quote it"),
        (
            vec!["--log", LOG, policy[0], policy[1], "--key", "host+referer"],
            "ip, host, user, method, path, status, agent",
        ),
        (vec!["--log", LOG, policy[0], policy[1], "--format", "xml"], "table, json, html"),
        (vec!["--log", LOG, policy[0], policy[1], "--deadline", "0s"], "--deadline"),
        (vec!["--log", LOG, policy[0], policy[1], "--store", "http://localhost"], "--store"),
    ] {
        let message = refusal(&arguments);
        assert!(message.contains(said), "{arguments:?}: {message}");
    }
    let message = refusal(&["--log", LOG, "--policy", ""]);
    assert!(message.contains("the spec is empty") && !message.contains("quote"), "{message}");
    let message = refusal(&["--log", LOG, policy[0], policy[1], "--store", "redis://me:secret@:x"]);
    assert!(!message.contains("secret"), "{message}");
}
