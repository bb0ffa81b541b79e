//! Tests the listeners and their addresses.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{Client, File, Service, sluicegate};

const FREE: &str = "127.0.0.1:0";
const CHECK: &str = r#"{"limit":"demo","key":"a"}"#;

fn client(service: &Service, kind: &str) -> Client {
    Client::connect(service.address_of(kind)).unwrap()
}

/// Sends a request over a Unix socket, and returns the status and the whole answer.
fn over(path: &Path, method: &str, target: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(path).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn the_page_the_metrics_and_admin_calls_are_only_on_the_admin_listener() {
    let service = Service::start(&["--admin", FREE, "--metrics", FREE, "--health", FREE]);
    let (mut http, mut admin) = (client(&service, "http"), client(&service, "admin"));
    for path in [
        "/",
        "/page/main.js",
        "/metrics",
        "/v1/recent",
        "/v1/bans?limit=demo",
        "/v1/holders?limit=demo&key=a",
    ] {
        let missing = http.get(path).unwrap();
        assert_eq!((missing.status, &*missing.error_code()), (404, "not_found"), "{path}");
        assert!(missing.body.contains("--admin"), "{path}: {}", missing.body);
        let reply = service_get(&service, path);
        assert!(reply == 200 || reply == 400, "{path}: {reply}");
    }
    for path in ["/v1/charge", "/v1/refund", "/v1/reset"] {
        assert_eq!(http.post(path, CHECK).unwrap().status, 404, "{path}");
        let mut stream = TcpStream::connect(service.address_of("admin")).unwrap();
        let length = CHECK.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{CHECK}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    for client in [&mut http, &mut admin] {
        assert_eq!(client.post("/v1/check", CHECK).unwrap().status, 200);
        assert_eq!(client.get("/v1/limits").unwrap().status, 200);
        assert_eq!(client.get("/readyz").unwrap().status, 200);
    }
    let mut metrics = client(&service, "metrics");
    let page = metrics.get("/metrics").unwrap().body;
    for kind in ["http", "admin", "metrics", "health"] {
        assert!(
            page.contains(&format!("sluicegate_connections{{listener=\"{kind}\"}} ")),
            "{page}"
        );
    }
    for path in ["/", "/healthz", "/v1/limits"] {
        assert_eq!(metrics.get(path).unwrap().status, 404, "{path}");
    }
    let mut health = client(&service, "health");
    assert_eq!(health.get("/metrics").unwrap().status, 404);
    assert_eq!(health.get("/healthz").unwrap().status, 200);
}

/// Sends a request to the admin listener as a program on this machine, and returns the status.
fn service_get(service: &Service, path: &str) -> u16 {
    let mut stream = TcpStream::connect(service.address_of("admin")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_unix_socket_has_its_rights_and_its_peers_count_as_local() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let address = format!("unix:{}?mode=600", path.display());
    let mut service = Service::start(&["--admin", &address, "--drain", "0s"]);
    assert_eq!(service.said_address("admin"), format!("unix:{}", path.display()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(over(&path, "POST", "/v1/check", CHECK).0, 200);
    let (status, recent) = over(&path, "GET", "/v1/recent", "");
    assert!(status == 200 && recent.contains("demo"), "{recent}");
    let forwarded = "GET /v1/recent HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 proxy\r\n\
                     Connection: close\r\n\r\n";
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(forwarded.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    service.signal(Signal::TERM);
    assert_eq!(service.wait().0.code(), Some(0));
    assert!(!path.exists(), "the file ends with the service");
}

#[test]
fn peers_on_a_unix_socket_have_no_bound_as_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let limits =
        "service: {max_connections_per_address: 1}\nlimits: {demo: {policies: [gcra 1/s]}}";
    let listeners = format!("listeners: {{admin: \"unix:{}\"}}\n{limits}", path.display());
    let file = File::new("limits.yaml", &listeners);
    let _service = Service::start(&["--config", file.path()]);
    let streams: Vec<_> = (0..5).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for mut stream in streams {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Covers accepted connections and some that were not accepted yet.
#[test]
fn what_was_sent_over_a_unix_socket_before_a_signal_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let text = format!(
        "listeners: {{admin: \"unix:{}\"}}\nservice: {{max_connections: 100}}\n\
         limits: {{demo: {{policies: [gcra 1/s]}}}}",
        path.display()
    );
    let file = File::new("limits.yaml", &text);
    let args = ["--config", file.path(), "--admin-token", "s3cret", "--drain", "0s"];
    let mut service = Service::start(&args);
    service.signal(Signal::STOP);
    let mut streams: Vec<_> = (0..10).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    service.signal(Signal::TERM);
    service.signal(Signal::CONT);
    for stream in &mut streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let (status, stderr) = service.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let address = format!("unix:{}", path.display());
    let killed = Service::start(&["--admin", &address]);
    assert!(path.exists());
    let live = sluicegate(&["serve", "--listen", FREE, "--admin", &address]);
    assert_eq!(live.status, 2, "{live:?}");
    let words =
        [&*format!("can't listen on {address}: a running process listens there"), "--admin"];
    assert!(words.iter().all(|words| live.stderr.contains(words)), "{live:?}");
    assert_eq!(over(&path, "GET", "/healthz", "").0, 200, "the live one goes on");
    drop(killed);
    assert!(path.exists(), "it had no chance to remove it");
    let _next = Service::start(&["--admin", &address]);
    assert_eq!(over(&path, "GET", "/healthz", "").0, 200);
}

/// Starts the service as systemd does: with sockets from number 3 on.
fn passed(socket: OwnedFd, variables: &str, args: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("exec 3<&0 0</dev/null; {variables} exec \"$0\" serve {args}");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_sluicegate")]);
    command.env_remove("SLUICEGATE_ADMIN_TOKEN").env_remove("RUST_LOG");
    command.stdin(Stdio::from(socket));
    command
}

const VARIABLES: &str = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";

#[test]
fn a_socket_that_systemd_has_opened_is_used_and_left_open() {
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap();
    // It connects before the service starts.
    let mut early = Client::connect(address).unwrap();
    early.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let args = "--listen fd:web --drain 0s --admin-token s3cret";
    let start = || Service::of(passed(listener.try_clone().unwrap().into(), VARIABLES, args));
    let mut service = start();
    assert_eq!(service.address(), address);
    assert_eq!(early.reply().unwrap().status, 200);
    service.signal(Signal::TERM);
    assert_eq!(service.wait().1, "");
    // The system keeps clients that connect meanwhile for the next process.
    let mut late = Client::connect(address).unwrap();
    late.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let _next = start();
    assert_eq!(late.reply().unwrap().status, 200);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let args = "--listen 127.0.0.1:0 --admin fd:web --drain 0s";
    let mut service = Service::of(passed(listener.into(), VARIABLES, args));
    assert_eq!(service.said_address("admin"), format!("unix:{}", path.display()));
    assert_eq!(over(&path, "GET", "/v1/recent", "").0, 200);
    service.signal(Signal::TERM);
    service.wait();
    assert!(path.exists(), "the file is systemd's");
}

#[test]
fn a_socket_that_was_not_passed_is_an_error_with_what_to_do() {
    for (variables, address, words) in [
        ("", "fd:web", "no sockets to this process (LISTEN_FDS)"),
        ("LISTEN_PID=1 LISTEN_FDS=1 LISTEN_FDNAMES=web", "fd:web", "for the process `1`"),
        ("LISTEN_FDS=1 LISTEN_FDNAMES=web", "fd:web", "for the process ``"),
        (VARIABLES, "fd:other", "no socket with this name, but web"),
        ("LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web", "fd:web", "2 sockets with 1 names"),
        ("LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:web", "fd:web", "several sockets"),
        ("LISTEN_PID=$$ LISTEN_FDS=9999999", "fd:web", "no sockets to this process"),
        (VARIABLES, "fd:web --grpc fd:web", "another listener has this socket"),
    ] {
        let listener = TcpListener::bind(FREE).unwrap();
        let mut command = passed(listener.into(), variables, &format!("--listen {address}"));
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{variables}: {stderr}");
        assert!(stderr.starts_with("error: can't listen on fd:"), "{stderr}");
        assert!(stderr.contains(words), "no `{words}` in {stderr}");
    }
    let not_a_socket = fs::File::open("/dev/null").unwrap();
    let output = passed(not_a_socket.into(), VARIABLES, "--listen fd:web").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("isn't a TCP or Unix socket that accepts"), "{stderr}");
}

#[test]
fn the_command_line_goes_before_the_listeners_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let text = format!(
        "listeners: {{http: \"127.0.0.1:1\", admin: \"unix:{}\"}}\n\
         limits: {{demo: {{policies: [gcra 1/s]}}}}",
        path.display()
    );
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path()]);
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(over(&path, "GET", "/healthz", "").0, 200, "the file's other listeners stay");
    let old = File::new("limits.yaml", "listen: 127.0.0.1:0\nlimits: {a: {policies: [gcra 1/s]}}");
    let refused = sluicegate(&["config", "check", old.path()]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("write `listeners: {http: ADDRESS}`"), "{refused:?}");
}
