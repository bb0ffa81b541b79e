//! Tests logs of every format and packing, and inputs that can't be read.

use serde_json::Value;

use crate::support::{Folder, json, refusal, said, sluicegate, sluicegate_reading};

/// A policy that denies every request, so the report has every key.
const NONE: [&str; 4] = ["--format", "json", "--policy", "fixed_window 0/s"];

fn played(arguments: &[&str]) -> Value {
    json(&sluicegate(&[arguments, &NONE].concat()))
}

fn keys(report: &Value) -> Vec<&str> {
    let keys = report["policies"][0]["denied_most"].as_array().unwrap();
    keys.iter().map(|key| key["key"].as_str().unwrap()).collect()
}

/// A log and its expected results; `first` is the start of the request.
struct Case {
    format: &'static str,
    log: &'static str,
    key: &'static str,
    first: &'static str,
}

const fn case(
    format: &'static str,
    log: &'static str,
    key: &'static str,
    first: &'static str,
) -> Case {
    Case { format, log, key, first }
}

/// One line of each format, as its product writes it.
const CASES: [Case; 25] = [
    case(
        "common",
        r#"192.0.2.1 - - [10/Oct/2024:13:55:36.123456 +0200] "GET / HTTP/1.1" 200 2326"#,
        "192.0.2.1",
        "2024-10-10T11:55:36.123456Z",
    ),
    case(
        "combined",
        r#"192.0.2.1 - - [2024-10-10T13:55:36+02:00] "GET / HTTP/1.1" 200 2326 "-" "curl""#,
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "combined",
        r#"Oct 10 13:55:36 web1 nginx: 192.0.2.1 - - [10/Oct/2024:13:55:36 +0200] "GET / HTTP/1.1" 200 2326 "-" "curl""#,
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "combined",
        r#"<190>1 2024-10-10T13:55:36.5+02:00 web1 nginx - - - 192.0.2.1 - - [10/Oct/2024:13:55:36 +0200] "GET / HTTP/1.1" 200 2326 "-" "curl""#,
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "combined",
        r#"{"log":"192.0.2.1 - - [10/Oct/2024:13:55:36 +0200] \"GET / HTTP/1.1\" 200 2326 \"-\" \"curl\"\n","stream":"stdout","time":"2024-10-10T11:55:36.7Z"}"#,
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "nginx-json",
        r#"2024-10-10T11:55:36.669794202Z stdout F {"time":"2022-09-27T06:18:57+00:00","remote_addr":"172.31.68.234"}"#,
        "172.31.68.234",
        "2022-09-27T06:18:57Z",
    ),
    case(
        "vhost-combined",
        r#"www.example.org:443 203.0.113.7 - - [10/Oct/2024:13:55:36 +0200] "GET / HTTP/1.1" 200 2326 "-" "curl/8""#,
        "203.0.113.7",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "nginx-json",
        r#"{"time":"2022-09-27T06:18:57+00:00","remote_addr":"172.31.68.234","http_x_forwarded_for":"203.0.113.133, 198.51.100.69","request_method":"GET","request_uri":"/leaf","status":200}"#,
        "172.31.68.234",
        "2022-09-27T06:18:57Z",
    ),
    case(
        "nginx-json",
        r#"{"msec":"1714564800.123","remote_addr":"192.0.2.1","request":"GET /a\"b HTTP/1.1","request_time":"0.004"}"#,
        "192.0.2.1",
        "2024-05-01T12:00:00.119Z",
    ),
    case(
        "nginx-json",
        r#"{"time_local":"27/Sep/2022:08:18:57 +0200","remote_addr":"192.0.2.1"}"#,
        "192.0.2.1",
        "2022-09-27T06:18:57Z",
    ),
    case(
        "caddy",
        r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/","headers":{"User-Agent":["curl/7.82.0"]}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#,
        "192.0.2.1",
        "2022-03-09T21:30:01.523173Z",
    ),
    case(
        "traefik",
        r#"{"ClientAddr":"192.0.2.1:50432","ClientHost":"192.0.2.1","ClientUsername":"-","DownstreamStatus":200,"Duration":1500000,"RequestMethod":"GET","RequestPath":"/","StartLocal":"2024-10-10T13:55:36.5+02:00","StartUTC":"2024-10-10T11:55:36.5Z","level":"info","msg":"","time":"2024-10-10T11:55:37Z"}"#,
        "192.0.2.1",
        "2024-10-10T11:55:36.5Z",
    ),
    case(
        "envoy-json",
        r#"{"start_time":"2024-04-15T20:17:00.310Z","method":"GET","path":"/","response_code":200,"duration":226,"downstream_remote_address":"192.0.2.1:40000","x_forwarded_for":"203.0.113.1"}"#,
        "192.0.2.1",
        "2024-04-15T20:17:00.31Z",
    ),
    case(
        "sluicegate",
        r#"{"time":"2026-01-01T00:00:00.123456Z","op":"check","limit":"demo","key":"alice","allowed":true,"source":"store","binding":null,"cost":3,"retry_after_ms":0,"policies":[]}"#,
        "alice",
        "2026-01-01T00:00:00.123456Z",
    ),
    case(
        "json",
        r#"{"time":"1714564800.123","key":"alice","cost":3}"#,
        "alice",
        "2024-05-01T12:00:00.123Z",
    ),
    case(
        "alb",
        r#"http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-""#,
        "192.168.131.39",
        "2018-07-02T22:22:48.364Z",
    ),
    case(
        "envoy",
        r#"[2024-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "203.0.113.9, 10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80""#,
        "10.0.35.28",
        "2024-04-15T20:17:00.31Z",
    ),
    case(
        "istio",
        r#"[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default"#,
        "10.44.1.23",
        "2020-11-25T21:26:18.409Z",
    ),
    case(
        "haproxy",
        r#"Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1""#,
        "10.0.1.2",
        "2009-02-06T12:14:14.655Z",
    ),
    case(
        "w3c",
        "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Date: 2024-10-10 11:55:36\r\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken\r\n2024-10-10 11:55:36 10.0.0.4 GET / - 80 - 192.0.2.1 curl/8 200 15",
        "192.0.2.1",
        "2024-10-10T11:55:35.985Z",
    ),
    case(
        "cloudfront",
        "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status time-taken\n2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111.cloudfront.net\t/index.html\t200\t0.001",
        "192.0.2.100",
        "2019-12-04T21:02:30.999Z",
    ),
    case(
        "logfmt",
        r#"time=2024-10-10T11:55:36Z level=info msg="handled \"it\"" remote_addr=192.0.2.1 status=200"#,
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "csv",
        "Time;Client_IP;note\n2024-10-10 11:55:36;\"192.0.2.1\";\"a;\"\"b\"\"\nc\"",
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "combined",
        r#"[pod/web-1/nginx] 192.0.2.1 - - [10/Oct/2024:13:55:36 +0200] "GET / HTTP/1.1" 200 2326 "-" "curl""#,
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
    case(
        "combined",
        r#"web-1  | 192.0.2.1 - - [10/Oct/2024:13:55:36 +0200] "GET / HTTP/1.1" 200 2326 "-" "curl""#,
        "192.0.2.1",
        "2024-10-10T11:55:36Z",
    ),
];

#[test]
fn logs_that_gave_no_request_are_recognized() {
    let folder = Folder::new();
    for Case { format, log, key, first } in CASES {
        let file = folder.file("a.log", log);
        let file = file.to_str().unwrap();
        for chosen in ["auto", format] {
            let output =
                sluicegate(&[&["--log", file, "--log-format", chosen], &NONE[..]].concat());
            let notes = String::from_utf8(output.stderr.clone()).unwrap();
            let note = format!("a.log: {format}");
            assert_eq!(notes.contains(&note), chosen == "auto", "{log}\n{notes}");
            let report = json(&output);
            assert_eq!(report["format"], format, "{log}");
            assert_eq!(
                (&report["requests"], &report["malformed"]),
                (&1.into(), &0.into()),
                "{log}"
            );
            assert_eq!((keys(&report), &report["first"]), (vec![key], &first.into()), "{log}");
        }
    }
}

#[test]
fn a_log_cut_at_any_byte_is_read_or_says_why_not() {
    // Read in this process, because each prefix is a separate log.
    let folder = Folder::new();
    for Case { format, log, .. } in CASES {
        let reader = sluicegate_replay::LogReader::new("log").format(format.parse().unwrap());
        for end in 0..=log.len() {
            let cut = &log.as_bytes()[..end];
            for reader in [&reader, &sluicegate_replay::LogReader::new("log")] {
                let recording = reader.read(cut).unwrap();
                let read = recording.requests() + recording.malformed() + recording.headers();
                assert_eq!(read, recording.lines(), "{}", cut.escape_ascii());
                assert_eq!(recording.unreadable().is_some(), recording.requests() == 0);
            }
        }
    }
    let cut = folder.file("cut.log", &CASES[0].log[..30]);
    let message = refusal(&["--log", cut.to_str().unwrap(), "--policy", "gcra 1/s"]);
    assert!(message.contains("cut.log:1: "), "{message}");
}

#[test]
fn fields_name_the_parts_of_any_json() {
    let folder = Folder::new();
    let log = folder.file(
        "app.jsonl",
        r#"{"at":"1714564800","user":{"id":7},"usage":{"total_tokens":5},"took":"250ms"}"#,
    );
    let log = log.to_str().unwrap();
    for (time, start) in [("time", "2024-05-01T11:59:59.75Z"), ("start", "2024-05-01T12:00:00Z")] {
        let fields = format!("{time}=at,key=user.id,cost=usage.total_tokens,duration=took");
        let report = json(&sluicegate(&[
            "--log",
            log,
            "--fields",
            &fields,
            "--format",
            "json",
            "--policy",
            "fixed_window 5/h",
            "fixed_window 4/h",
        ]));
        assert_eq!((&report["format"], &report["first"]), (&"json".into(), &start.into()));
        assert_eq!(report["policies"][0]["denied"], 0);
        assert_ne!(report["policies"][0], report["policies"][1]);
    }
    let message = refusal(&["--log", log, "--policy", "gcra 1/s"]);
    assert!(message.contains("app.jsonl:1: ") && message.contains("--fields"), "{message}");
    let fields = ["--fields", "time=when,key=user.id"];
    let message = refusal(&[&["--log", log, "--policy", "gcra 1/s"], &fields[..]].concat());
    assert!(message.contains("app.jsonl:1: `when` is missing"), "{message}");
}

#[test]
fn a_pattern_describes_any_line() {
    let folder = Folder::new();
    let log = folder.file("odd.log", "<1714564800> alice did 3\nnothing\n");
    let pattern = r"^<(?<time>\d+)> (?<key>\w+) did (?<cost>\d+)";
    let report = played(&["--log", log.to_str().unwrap(), "--pattern", pattern]);
    assert_eq!(keys(&report), ["alice"]);
    assert_eq!((&report["format"], &report["malformed"]), (&"pattern".into(), &1.into()));
}

#[test]
fn a_time_in_quotes_is_read_and_a_field_that_is_there_twice_is_called_that() {
    let folder = Folder::new();
    let log = folder.file("quoted", "{\"time\":\"1714564800.123\",\"key\":\"a\"}\n");
    let report = played(&["--log", log.to_str().unwrap(), "--log-format", "json"]);
    assert_eq!(report["first"], "2024-05-01T12:00:00.123Z");
    let log = folder.file("twice", "{\"time\":1,\"key\":\"a\",\"time\":2}\n");
    for format in ["json", "auto"] {
        let log = log.to_str().unwrap();
        let message = refusal(&["--log", log, "--log-format", format, "--policy", "gcra 1/s"]);
        assert!(message.contains("twice:1: `time` is there twice"), "{message}");
    }
}

#[test]
fn rotated_logs_are_played_in_order_of_time() {
    use std::io::Write as _;
    let folder = Folder::new();
    let lines = |seconds: &[u64]| {
        let line = |second| format!("{{\"time\":{second},\"key\":\"a\"}}\n");
        seconds.iter().map(line).collect::<String>()
    };
    folder.file("access.log", lines(&[7_201, 7_202]));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines(&[1, 2]).as_bytes()).unwrap();
    folder.file("access.log.1.gz", gzip.finish().unwrap());
    let log = folder.0.path().join("access.log");
    let log = log.to_str().unwrap();
    let glob = format!("{log}*");
    let both = [log, &format!("{log}.1.gz")];
    let policy = ["--format", "json", "--policy", "fixed_window 2/h"];
    for logs in [&[&*glob][..], &both] {
        let report = json(&sluicegate(&[&["--log"], logs, &policy[..]].concat()));
        assert_eq!((&report["requests"], &report["policies"][0]["denied"]), (&4.into(), &0.into()));
        assert_eq!(report["first"], "1970-01-01T00:00:01Z");
    }
    let again = refusal(&["--log", log, "--log", &glob, "--policy", "gcra 1/s"]);
    assert!(again.contains("access.log is given twice"), "{again}");
    let none = refusal(&["--log", "none-*.log", "--policy", "gcra 1/s"]);
    assert!(none.contains("no file matches `none-*.log`"), "{none}");
}

#[test]
fn a_file_without_a_readable_line_is_an_error() {
    let folder = Folder::new();
    for (content, said) in [
        ("", "log is empty"),
        ("\n", "log:1: it is blank"),
        ("#!/bin/sh\necho\n", "log:1: no known format"),
        ("{\"key\":1}\n", "log:1: no known format"),
        ("{\"time\":-1,\"key\":1}\n", "log:1: `time` isn't a time from 1970 to 2255"),
        ("{\"time\":\"9999-01-01T00:00:00Z\",\"key\":1}\n", "log:1: `time` isn't a time"),
        ("h - - [01/Jan/0000:00:00:00 +0000] \"\n", "log:1: its [time] isn't one from 1970"),
        ("time,key\n", "only a header"),
    ] {
        let log = folder.file("log", content);
        for format in ["table", "json", "html"] {
            let log = log.to_str().unwrap();
            let message = refusal(&["--log", log, "--format", format, "--policy", "gcra 1/s"]);
            assert!(message.contains(said), "{content}: {message}");
        }
    }
    let read = folder.file("read", "{\"time\":1,\"key\":\"a\"}\n");
    let unread = folder.file("unread", "nothing\n");
    let logs = ["--log", read.to_str().unwrap(), unread.to_str().unwrap()];
    let message = refusal(&[&logs[..], &["--policy", "gcra 1/s"]].concat());
    assert!(message.contains("unread:1: "), "{message}");
}

#[test]
fn options_that_fit_no_log_are_refused_with_what_to_change() {
    let folder = Folder::new();
    let log = folder.file("log", CASES[1].log);
    let log = log.to_str().unwrap();
    for (options, said) in [
        (&["--pattern", "(?<time>.)"][..], "no group `key`"),
        (&["--pattern", "(.)"], "no group `time`"),
        (&["--pattern", "(?<time>.)(?<kay>.)"], "group `kay`"),
        (&["--pattern", "("], "unclosed group"),
        (&["--fields", "time"], "`time` isn't PART=NAME"),
        (&["--fields", "when=ts"], "`when` isn't a part"),
        (&["--fields", "key=a,key=b"], "`key` is named twice"),
        (&["--fields", "time=t,key=k", "--log-format", "combined"], "leave it out"),
        (&["--log-format", "xml"], "possible values: auto, combined"),
        (&["--pattern", "(?<time>.)(?<key>.)", "--log-format", "csv"], "cannot be used with"),
        (&["--log-format", "csv", "--log-format", "csv"], "cannot be used multiple times"),
        (&["--fields", "key=a", "--fields", "key=a"], "cannot be used multiple times"),
        (
            &["--pattern", "(?<time>.)(?<key>.)", "--pattern", "(?<time>.)(?<key>.)"],
            "cannot be used multiple times",
        ),
        (&["--log", log], "is given twice"),
        (&["--log", "-", "--log", "-"], "is given twice"),
    ] {
        let message = refusal(&[&["--log", log, "--policy", "gcra 1/s"], options].concat());
        assert!(message.contains(said), "{options:?}: {message}");
    }
}

#[test]
fn utf_16_with_a_byte_order_mark_is_read() {
    let text = "\u{feff}{\"time\":1,\"key\":\"é\"}\r\n";
    let log: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for log in [&log[..], text.as_bytes()] {
        let output = sluicegate_reading(&[&["--log", "-"], &NONE[..]].concat(), log);
        assert_eq!(keys(&json(&output)), ["é"]);
    }
}

#[test]
fn a_log_that_grows_while_it_is_read_is_read_up_to_its_size_at_the_start() {
    use std::io::Write as _;
    // Grows while it is read, like a log that receives a line for each of its lines.
    let folder = Folder::new();
    let path = folder.file("growing.log", "{\"time\":1,\"key\":\"a\"}\n".repeat(20_000));
    let mut log = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                log.write_all(b"{\"time\":1,\"key\":\"a\"}\n").unwrap();
            }
        });
        let output = sluicegate(&[&["--log", path.to_str().unwrap()], &NONE[..]].concat());
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!((output.status.code(), &*said(&output)), (Some(0), ""));
        let size = std::fs::metadata(&path).unwrap().len();
        let report = json(&output);
        assert!(report["requests"].as_u64().unwrap() <= size / 21);
        assert!(report["malformed"].as_u64().unwrap() <= 1);
    });
}

/// A decision log says more than replay needs, and each of its lines counts once.
#[test]
fn a_decision_log_is_played_without_the_lines_that_no_other_number_would_change() {
    let line = |time: u32, more: &str| {
        format!(
            r#"{{"time":"2026-01-01T00:00:{time:02}Z","op":"check","limit":"a","key":"k\n1","allowed":true,"source":"store","binding":null,"cost":1,"retry_after_ms":0,"policies":[],{more}"client":"c"}}"#
        )
    };
    let log = [
        line(0, ""),
        line(1, r#""repeat":true,"#),
        line(2, r#""together":["b"],"denied_by":["b"],"#),
        line(3, r#""together":["b"],"denied_by":["a"],"left_out":7,"#),
        line(4, "").replace(r#""cost":1"#, r#""cost":{"x":1,"y":2}"#),
        line(5, "").replace("check", "settle"),
        line(6, "").replace(r#""store""#, r#""bypass""#),
        line(7, "").replace(r#""key":"k\n1""#, r#""key_bytes":"ff00""#),
        "{\"time\":\"2026-01-01T00:0".to_owned(),
        line(8, "").replace(r#""limit":"a""#, r#""limit":"b""#),
    ];
    let output = sluicegate_reading(
        &[&["--log", "-", "--limit", "a"], &NONE[..]].concat(),
        log.join("\n").as_bytes(),
    );
    let report = json(&output);
    assert_eq!(
        (&report["format"], &report["requests"], &report["malformed"]),
        (&"sluicegate".into(), &4.into(), &1.into())
    );
    assert_eq!(keys(&report), ["k\n1", "\\xff\0"]);
    let decisions = serde_json::json!({
        "other_operations": 1, "not_counted": 2, "denied_by_others": 1, "costs_by_policy": 1, "left_out": 7,
    });
    assert_eq!(report["decisions"], decisions);
    let refused = sluicegate_reading(
        &["--log", "-", "--limit", "a", "--policy", "gcra 1/s"],
        br#"{"time":1,"key":"a"}"#,
    );
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("decision log"), "{}", said(&refused));
}
