//! Tests access to admin calls.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use sluicegate_testkit::wait::until;
use tempfile::TempDir;

use crate::support::{File, Service, binary, sluicegate};

const LIMITS: &str = r#"
limits:
  demo: {policies: ["token_bucket 10/s burst 20"], ban: 1000/h for 1h}
  jobs: {policies: ["concurrency 9 hold 30s"]}
"#;

/// Every admin call, as an administrator makes it.
const CALLS: [(&str, &str, &str); 26] = [
    ("POST", "/v1/charge", r#"{"limit":"demo","key":"a"}"#),
    ("POST", "/v1/refund", r#"{"limit":"demo","key":"a"}"#),
    ("POST", "/v1/reset", r#"{"limit":"demo","key":"a"}"#),
    ("POST", "/v1/ban", r#"{"limit":"demo","key":"a","for":"30d"}"#),
    ("POST", "/v1/unban", r#"{"limit":"demo","key":"a"}"#),
    ("POST", "/v1/pause", r#"{"limit":"demo","key":"a","for":"30s"}"#),
    ("POST", "/v1/resume", r#"{"limit":"demo","key":"a"}"#),
    (
        "POST",
        "/v1/revoke",
        r#"{"limit":"jobs","key":"a","hold":"00112233445566778899aabbccddeeff"}"#,
    ),
    ("GET", "/v1/bans?limit=demo", ""),
    ("GET", "/v1/holders?limit=jobs&key=a", ""),
    ("GET", "/v1/recent", ""),
    ("GET", "/v1/fleet", ""),
    ("PUT", "/v1/limits/demo/override", r#"{"times":2}"#),
    ("GET", "/v1/limits/demo/override", ""),
    ("DELETE", "/v1/limits/demo/override", ""),
    ("PUT", "/v1/limits/demo/overrides/a", r#"{"times":2}"#),
    ("GET", "/v1/limits/demo/overrides", ""),
    ("GET", "/v1/limits/demo/overrides/a", ""),
    ("DELETE", "/v1/limits/demo/overrides/a", ""),
    ("GET", "/v1/audit", ""),
    ("GET", "/v1/limits/demo/top", ""),
    ("POST", "/v1/explain", r#"{"limit":"demo","key":"a"}"#),
    ("GET", "/v1/keys?limit=demo", ""),
    ("GET", "/v1/config", ""),
    ("GET", "/v1/stream?follow=off", ""),
    ("POST", "/v1/simulate", r#"{"limit":"demo","policies":["gcra 1/s"]}"#),
];

fn start(args: &[&str]) -> Service {
    let file = File::new("limits.yaml", LIMITS);
    Service::start(&[&["--config", file.path()], args].concat())
}

/// Returns the statuses of all admin calls with these header fields: 401, 403, or that of the call
/// itself.
fn statuses(service: &Service, fields: &[(&str, &str)]) -> Vec<u16> {
    let calls = CALLS.iter();
    calls
        .map(|(method, path, body)| {
            let reply = service.send(method, path, fields, body.as_bytes());
            if reply.status >= 400 {
                reply.error_code();
            }
            reply.status
        })
        .collect()
}

/// Expected statuses. No hold has that id, and the embedded store lists no keys; only an authorized client learns so.
const ANSWERED: [u16; CALLS.len()] = [
    200, 200, 200, 200, 200, 200, 200, 404, 200, 200, 200, 200, 200, 200, 204, 200, 200, 200, 204,
    200, 200, 200, 400, 200, 200, 200,
];

#[test]
fn a_configured_token_is_required_on_loopback_too() {
    let service = start(&["--admin-token", "s3cret"]);
    assert_eq!(statuses(&service, &[]), [401; CALLS.len()]);
    for wrong in ["Bearer s3cre", "Bearer s3crets", "Basic s3cret", "s3cret", "Bearer "] {
        assert_eq!(statuses(&service, &[("Authorization", wrong)]), [401; CALLS.len()], "{wrong}");
    }
    let token = ("Authorization", "Bearer s3cret");
    assert_eq!(statuses(&service, &[token]), ANSWERED);
    let through = [token, ("X-Forwarded-For", "192.0.2.1"), ("Via", "1.1 proxy")];
    assert_eq!(statuses(&service, &through), ANSWERED, "a proxy passes the token on");
    let reply = service.get("/v1/recent");
    assert_eq!(reply.field("www-authenticate"), Some("Bearer"));
    let body = r#"{"limit":"demo","key":"a"}"#;
    assert_eq!(service.post("/v1/check", body).status, 200, "a check needs no token");
    assert_eq!(service.post("/v1/peek", body).status, 200);
    assert_eq!(service.get("/metrics").status, 200);
}

#[test]
fn without_a_token_a_forwarded_request_makes_no_admin_call() {
    let service = start(&[]);
    assert_eq!(statuses(&service, &[]), ANSWERED);
    for field in [
        ("Forwarded", "for=192.0.2.1"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Proto", "https"),
        ("x-real-ip", "127.0.0.1"),
        ("Via", "1.1 proxy"),
    ] {
        assert_eq!(statuses(&service, &[field]), [403; CALLS.len()], "{field:?}");
        let message = service.send("GET", "/v1/recent", &[field], b"").body;
        let name = field.0.to_lowercase();
        assert!(message.contains(&format!("`{name}`")), "{message}");
        assert!(message.contains("SLUICEGATE_ADMIN_TOKEN"), "{message}");
        assert!(message.contains("--admin-token-file"), "{message}");
    }
    let cross_site = [("Origin", "http://evil.example")];
    assert_eq!(statuses(&service, &cross_site), [403; CALLS.len()]);
}

/// The routes and the OpenAPI document agree on which calls are guarded.
#[test]
fn the_document_names_every_admin_call() {
    let service = start(&["--admin-token", "s3cret"]);
    let document = service.get("/v1/openapi.json").json();
    let mut guarded: Vec<_> = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let is_said = operation["security"].to_string().contains("adminToken");
            let reply = service.send(&method.to_uppercase(), path, &[], b"{}");
            assert_eq!(reply.status == 401, is_said, "{method} {path}: {}", reply.body);
            if is_said {
                guarded.push(path.as_str());
            }
        }
    }
    let mut calls = CALLS.map(|(_, path, _)| {
        let path = path.split('?').next().unwrap();
        path.replace("/demo/", "/{limit}/").replace("overrides/a", "overrides/{key}")
    });
    calls.sort_unstable();
    assert_eq!(guarded, calls);
}

#[test]
fn a_token_comes_from_the_variable_or_a_file_and_is_never_empty() {
    let serve = |args: &[&str], variable: Option<&str>| {
        let mut command = binary();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        let output = command.envs(variable.map(|it| ("SLUICEGATE_ADMIN_TOKEN", it))).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let file = |text: &str| File::new("token", text);
    let (empty, blank, two) = (file(""), file(" \n\n"), file("one\ntwo\n"));
    let (large, good) = (file(&"x".repeat(5_000)), file("s3cret\n"));
    let gone = format!("{}.gone", good.path());
    let from = |path: &str| ["--admin-token-file".to_owned(), path.to_owned()];
    for (args, variable, words) in [
        (vec![], Some(""), "SLUICEGATE_ADMIN_TOKEN) is empty"),
        (vec![], Some(" "), "SLUICEGATE_ADMIN_TOKEN) is empty"),
        (vec![], Some("a\nb"), "has several lines"),
        (from(empty.path()).to_vec(), None, "is empty"),
        (from(blank.path()).to_vec(), None, "is empty"),
        (from(two.path()).to_vec(), None, "has several lines"),
        (from(large.path()).to_vec(), None, "has more than 4096 bytes"),
        (from(&gone).to_vec(), None, "No such file"),
        (from("/").to_vec(), None, "Is a directory"),
        (from(good.path()).to_vec(), Some("s3cret"), "are both given"),
    ] {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let (status, stderr) = serve(&args, variable);
        assert_eq!(status, Some(2), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error: --admin-token"), "{stderr}");
        assert!(stderr.contains(words), "no `{words}` in {stderr}");
        assert!(!stderr.contains("s3cret"), "{stderr}");
    }
    let service = start(&["--admin-token-file", good.path()]);
    assert_eq!(service.get("/v1/recent").status, 401);
    let reply = service.send("GET", "/v1/recent", &[("Authorization", "Bearer s3cret")], b"");
    assert_eq!(reply.status, 200);
    let help = binary().args(["serve", "--help"]).env("SLUICEGATE_ADMIN_TOKEN", "s3cret").output();
    assert!(!String::from_utf8(help.unwrap().stdout).unwrap().contains("s3cret"));
}

#[test]
fn the_start_says_that_admin_calls_are_open_to_this_machine() {
    let mut service = start(&[]);
    let log = service.follow_its_log();
    let log = until("the note", || {
        let log = log.lock().unwrap().clone();
        if log.contains("note: no admin token is set") { Ok(log) } else { Err(log) }
    });
    for words in ["every program on this machine", "--admin-token-file", "forwards to this port"] {
        assert!(log.contains(words), "no `{words}` in {log}");
    }
    let mut service = start(&["--admin-token", "s3cret"]);
    service.signal(rustix::process::Signal::INT);
    let (_, log) = service.wait();
    assert!(!log.contains("no admin token"), "{log}");
}

/// A real proxy on the same machine, on a socket of its own.
struct Nginx {
    child: Child,
    socket: PathBuf,
    _folder: TempDir,
}

impl Nginx {
    /// Starts a proxy that forwards all requests to the service. `more` is added to its `location`
    /// block.
    fn before(service: &Service, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nginx.sock");
        let path = folder.path().display();
        let is_root = rustix::process::geteuid().is_root();
        let text = format!(
            "daemon off; master_process off; error_log stderr; pid {path}/pid; {}
             events {{}}
             http {{
               access_log off;
               client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
               fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;
               server {{
                 listen unix:{};
                 location / {{ proxy_pass http://{}; {more} }}
               }}
             }}",
            if is_root { "user root;" } else { "" },
            socket.display(),
            service.address(),
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(Self::program());
        command.arg("-c").arg(&file).arg("-p").arg(folder.path()).arg("-e").arg("stderr");
        let child = command.stdin(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
        let nginx = Self { child, socket, _folder: folder };
        until("nginx listens", || UnixStream::connect(&nginx.socket).map(drop));
        nginx
    }

    /// Returns the nginx binary, which may be in a folder that isn't on every user's path.
    fn program() -> PathBuf {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/bin");
        let more = ["/usr/sbin", "/usr/local/sbin", tools].map(PathBuf::from);
        let folders = std::env::split_paths(&path).chain(more);
        let found = folders.map(|folder| folder.join("nginx")).find(|program| program.is_file());
        found.unwrap_or_else(|| panic!("there is no nginx to test with: run `cargo xtask setup`"))
    }

    /// Returns the status of a request through the proxy.
    fn status(&self, method: &str, path: &str, fields: &str, body: &str) -> u16 {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: limits.example\r\nConnection: close\r\n{fields}\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let status = reply.split(' ').nth(1).unwrap_or_else(|| panic!("{reply}"));
        status.parse().unwrap()
    }

    fn statuses(&self, fields: &str) -> Vec<u16> {
        CALLS.iter().map(|(method, path, body)| self.status(method, path, fields, body)).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_proxy_on_the_same_machine_makes_no_admin_call_without_the_token() {
    const FORWARDS: &str = "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;";
    let check = json!({"limit": "demo", "key": "b"}).to_string();
    let token = "Authorization: Bearer s3cret\r\n";
    let guarded = start(&["--admin-token", "s3cret"]);
    for more in ["", FORWARDS] {
        let nginx = Nginx::before(&guarded, more);
        assert_eq!(nginx.statuses(""), [401; CALLS.len()], "{more}");
        assert_eq!(nginx.statuses(token), ANSWERED, "{more}");
        assert_eq!(nginx.status("POST", "/v1/check", "", &check), 200);
    }
    let open = start(&[]);
    for more in [FORWARDS, "proxy_set_header X-Real-IP $remote_addr;"] {
        let nginx = Nginx::before(&open, more);
        assert_eq!(nginx.statuses(""), [403; CALLS.len()], "{more}");
        assert_eq!(nginx.statuses(token), [403; CALLS.len()], "{more}");
        assert_eq!(nginx.status("POST", "/v1/check", "", &check), 200);
    }
    // The service can't distinguish such a proxy from a local program, so it prints at startup that
    // a token is needed.
    assert_eq!(Nginx::before(&open, "").statuses(""), ANSWERED);
}

#[test]
fn the_command_line_takes_the_token_from_a_file() {
    let service = start(&["--admin-token", "s3cret"]);
    let url = format!("http://{}", service.address());
    let (good, empty) = (File::new("token", "s3cret\n"), File::new("token", "\n"));
    let bans = |more: &[&str]| {
        sluicegate(&[&["bans", "--server", &url, "--limit", "demo"], more].concat())
    };
    let without = bans(&[]);
    assert_eq!(without.status, 2, "{without:?}");
    assert!(without.stderr.contains("--admin-token-file"), "{without:?}");
    assert_eq!(bans(&["--admin-token-file", good.path()]).status, 0);
    let done = bans(&["--admin-token-file", empty.path()]);
    assert!(done.status == 2 && done.stderr.contains("is empty"), "{done:?}");
}
