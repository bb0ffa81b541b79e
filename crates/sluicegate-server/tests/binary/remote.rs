//! Tests the command line with a running service.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::json;
use sluicegate_client::RemoteStore;
use sluicegate_core::{Store as _, StoreErrorKind};
use sluicegate_testkit::servers::{Authority, shared};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::{Done, File, Service, binary, own_store, sluicegate};

const LIMITS: &str = r#"
limits:
  login: {policies: ["token_bucket 1/h burst 2", "fixed_window 100/d as day"]}
  api: {policies: [gcra 5/h burst 5], allow: [vip], block: [mallory]}
  odd: {policies: ["smooth 1/h start full", "shaper 1/min queue 9", "gcra 1/h shadow as s", "sliding_log 9/d and 9/h"]}
"#;

const VERBS: [&str; 7] = ["check", "peek", "take", "acquire", "charge", "refund", "reset"];

fn start() -> (Service, String) {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let url = format!("http://{}", service.address());
    (service, url)
}

/// Runs a command for the key `alice`, or for another key in `more`.
fn ask(url: &str, verb: &str, limit: &str, more: &[&str]) -> Done {
    let key = if more.contains(&"--key") { &[][..] } else { &["--key", "alice"] };
    let within = if verb == "acquire" { &["--within", "1s"][..] } else { &[] };
    sluicegate(&[&[verb, "--server", url, "--limit", limit], key, within, more].concat())
}

#[test]
fn every_verb_asks_the_service_and_its_state_lasts() {
    let (_service, url) = start();
    for (verb, status, left) in [
        ("check", 0, 4),
        ("peek", 0, 4),
        ("take", 0, 3),
        ("acquire", 0, 2),
        ("charge", 0, 1),
        ("refund", 0, 2),
        ("reset", 0, 5),
    ] {
        let done = ask(&url, verb, "api", &[]);
        assert_eq!((done.status, &*done.stderr), (status, ""), "{verb}: {}", done.stdout);
        let left = format!("{left} of 5 left");
        assert!(done.stdout.contains(&left), "{verb}: {}", done.stdout);
    }
    let taken = ask(&url, "take", "api", &["--cost", "9"]);
    assert!(
        taken.stdout.starts_with("granted  api  5 units\nallowed  api/gcra  0 of 5"),
        "{taken:?}"
    );
    let charged = ask(&url, "charge", "api", &["--cost", "9"]);
    assert!(charged.stdout.starts_with("charged  api/gcra  0 of 5 left"), "{charged:?}");
    for verb in ["check", "peek", "take", "acquire"] {
        let done = ask(&url, verb, "api", &[]);
        assert_eq!((done.status, &*done.stderr), (1, ""), "{verb}: {}", done.stdout);
        assert!(
            done.stdout.starts_with("denied   api/gcra  0 of 5 left, retry after 2 h"),
            "{done:?}"
        );
    }
}

/// Covers every form of a line about a policy, except for times, which differ.
#[test]
fn the_lines_are_those_of_a_store() {
    let text = own_store(shared().unwrap().url()) + LIMITS;
    let file = File::new("limits.yaml", &text);
    let (_service, url) = start();
    for (verb, limit, more) in [
        ("check", "login", &[][..]),
        ("check", "login", &["--key", "a", "--cost", "3"]),
        ("check", "login", &["--key", "b", "--cost", "day=3"]),
        ("peek", "odd", &["--key", "a"]),
        ("charge", "login", &["--key", "c", "--cost", "day=2"]),
        ("take", "login", &["--key", "d", "--cost", "5"]),
        ("refund", "login", &["--key", "e"]),
        ("refund", "login", &["--key", "e", "--cost", "day=2"]),
        ("reset", "login", &["--key", "f"]),
        ("check", "api", &["--key", "vip"]),
        ("take", "api", &["--key", "vip", "--cost", "9"]),
        ("check", "api", &["--key", "mallory"]),
        ("charge", "api", &["--key", "vip"]),
    ] {
        let key = if more.contains(&"--key") { &[][..] } else { &["--key", "alice"] };
        let of_store = [&[verb, "--config", file.path(), "--limit", limit], key, more].concat();
        let (local, remote) = (sluicegate(&of_store), ask(&url, verb, limit, more));
        assert_eq!(
            (remote.status, &remote.stdout, &remote.stderr),
            (local.status, &local.stdout, &local.stderr),
            "{verb} {limit} {more:?}"
        );
    }
}

#[test]
fn json_is_what_the_service_says() {
    let (service, url) = start();
    let peeked = ask(&url, "peek", "odd", &["--json"]);
    let body = json!({"limit": "odd", "key": "alice"}).to_string();
    assert_eq!(peeked.stdout.trim_end(), service.post("/v1/peek", body).body);
    let denied = ask(&url, "peek", "login", &["--cost", "3", "--json"]);
    assert_eq!((denied.status, denied.json()["allowed"].clone()), (1, json!(false)));
    let forbidden = ask(&url, "check", "api", &["--key", "mallory", "--json"]);
    assert_eq!((forbidden.status, forbidden.json()["source"].clone()), (1, json!("bypass")));
}

#[test]
fn a_path_in_front_of_those_of_the_service_is_asked() {
    let (_service, url) = start();
    assert_eq!(ask(&format!("{url}/"), "check", "api", &[]).status, 0);
    let elsewhere = ask(&format!("{url}/limits"), "check", "api", &[]);
    assert_eq!(elsewhere.status, 2);
    assert!(elsewhere.stderr.contains("answered 404: this path doesn't exist"), "{elsewhere:?}");
}

#[test]
fn what_the_service_refuses_is_exit_2_and_says_why() {
    let (_service, url) = start();
    for verb in VERBS {
        let unknown = ask(&url, verb, "nobody", &[]);
        assert_eq!((unknown.status, &*unknown.stdout), (2, ""), "{verb}");
        let words =
            format!("error: the service at {url} answered 404: there is no limit called `nobody`");
        assert!(unknown.stderr.starts_with(&words), "{unknown:?}");
    }
    let policy = ask(&url, "check", "api", &["--cost", "other=1"]);
    assert_eq!(policy.status, 2);
    assert!(policy.stderr.contains("answered 400") && policy.stderr.contains("gcra"), "{policy:?}");
}

#[test]
fn the_admin_token_goes_where_it_is_needed() {
    let service = Service::start(&["--admin-token", "s3cret"]);
    let url = format!("http://{}", service.address());
    let file = File::new("token", "s3cret\n");
    for verb in ["charge", "refund", "reset"] {
        assert_eq!(ask(&url, verb, "demo", &["--admin-token-file", file.path()]).status, 0);
        let without = ask(&url, verb, "demo", &[]);
        assert_eq!(without.status, 2, "{verb}");
        assert!(without.stderr.contains("answered 401"), "{without:?}");
        assert!(without.stderr.contains("SLUICEGATE_ADMIN_TOKEN"), "{without:?}");
        let wrong = ask(&url, verb, "demo", &["--admin-token", "guess"]);
        assert_eq!(wrong.status, 2, "{verb}");
        assert!(!wrong.stderr.contains("guess"), "{wrong:?}");
        assert_eq!(ask(&url, verb, "demo", &["--admin-token", "s3cret"]).status, 0, "{verb}");
        let mut command = binary();
        command.args([verb, "--server", &url, "--limit", "demo", "--key", "a"]);
        let output = command.env("SLUICEGATE_ADMIN_TOKEN", "s3cret\n").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{verb}, as a file has it");
    }
    assert_eq!(ask(&url, "check", "demo", &["--admin-token", "guess"]).status, 0);
    let broken = ask(&url, "reset", "demo", &["--admin-token", "a\nb"]);
    assert!(broken.status == 2 && broken.stderr.contains("can't carry"), "{broken:?}");
}

#[test]
fn what_does_not_go_with_a_service_is_exit_2() {
    let url = "http://127.0.0.1:1";
    for (more, words) in [
        (&["--config", "limits.yaml"][..], "--config"),
        (&["--store", "memory:"], "--store"),
        (&["--cost", "1", "--cost", "gcra=2"], "POLICY=N for each"),
        (&["--cost", "0"], "whole number"),
    ] {
        let done = ask(url, "check", "api", more);
        assert_eq!((done.status, &*done.stdout), (2, ""), "{more:?}: {}", done.stderr);
        assert!(done.stderr.contains(words), "{more:?}: {}", done.stderr);
    }
    for not_a_url in ["127.0.0.1:1", "redis://127.0.0.1", "http://", "http://user:hunter2@h"] {
        let done = ask(not_a_url, "check", "api", &[]);
        assert_eq!(done.status, 2, "{not_a_url}");
        assert!(done.stderr.contains("http://HOST:PORT"), "{}", done.stderr);
    }
    let mut command = binary();
    command.args(["check", "--server", url, "--limit", "api", "--key"]);
    command.arg(std::ffi::OsStr::from_bytes(b"\xff"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("UTF-8"));
    for within in [&[][..], &["--within", "2"], &["--within", "1h"]] {
        let acquire = ["acquire", "--server", url, "--limit", "api", "--key", "a"];
        let done = sluicegate(&[&acquire, within].concat());
        assert!(done.status == 2 && done.stderr.contains("--within"), "{within:?}: {done:?}");
    }
}

#[test]
fn a_service_that_is_not_there_is_exit_3() {
    // A free port could be given to the server of another test meanwhile.
    let url = "http://127.0.0.1:1";
    for verb in VERBS {
        let done = ask(url, verb, "demo", &[]);
        assert_eq!((done.status, &*done.stdout), (3, ""), "{verb}");
        let words = format!("error: the service at {url} can't be reached (Connection refused");
        assert!(done.stderr.starts_with(&words), "{done:?}");
        assert!(done.stderr.contains("nothing was charged"), "{done:?}");
    }
}

#[test]
fn an_acquire_connects_again_until_the_service_is_started() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let address = service.address().to_string();
    drop(service);
    let url = format!("http://{address}");
    let mut acquire = binary();
    acquire.args(["acquire", "--server", &url, "--limit", "api", "--key", "alice"]);
    acquire.args(["--within", "1min"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut acquire = acquire.spawn().unwrap();
    // Meanwhile, a command that can't wait fails immediately.
    assert_eq!(ask(&url, "check", "api", &[]).status, 3);
    assert!(acquire.try_wait().unwrap().is_none(), "it waits");
    let _service = Service::start_on(&address, &["--config", file.path()]);
    let done = acquire.wait_with_output().unwrap();
    let stdout = String::from_utf8(done.stdout).unwrap();
    assert_eq!((done.status.code(), &*done.stderr), (Some(0), &b""[..]), "{stdout}");
    assert!(stdout.contains("4 of 5 left"), "{stdout}");
}

#[test]
fn a_service_whose_store_fails_is_exit_3() {
    let file = File::new("limits.yaml", "limits: {demo: {policies: [gcra 1/s]}}");
    let store = ["--store", "redis://127.0.0.1:1", "--config", file.path()];
    let service = Service::start(&store);
    let url = format!("http://{}", service.address());
    for verb in VERBS {
        let done = ask(&url, verb, "demo", &[]);
        assert_eq!((done.status, &*done.stdout), (3, ""), "{verb}");
        assert!(done.stderr.contains("answered 503: "), "{done:?}");
        assert!(done.stderr.contains("the store at 127.0.0.1:1"), "{done:?}");
    }
}

/// Starts a server that answers every request with these bytes, or closes the connection without an
/// answer.
fn impostor(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer);
        }
    });
    url
}

#[test]
fn who_answers_and_is_no_service_is_found_out() {
    for (answer, status, words) in [
        (&b""[..], 3, "may have charged"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 3, "as a Sluicegate service does"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 2, "as a Sluicegate service does"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", 3, "answered 502"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhello", 3, "not to the end"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\nhello", 3, "not to the end"),
        (b"+PONG\r\n", 3, "may have charged"),
        (
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 44\r\n\r\n{\"error\":{\"code\":\"x\",\"message\":\"\\u001b[2J\"}}",
            2,
            "\\u{1b}[2J",
        ),
    ] {
        let done = ask(&impostor(answer), "check", "demo", &[]);
        assert_eq!((done.status, &*done.stdout), (status, ""), "{done:?}");
        assert!(done.stderr.contains(words), "{words}: {done:?}");
    }
}

#[test]
fn a_service_that_says_nothing_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let done = ask(&url, "check", "demo", &["--deadline", "50ms"]);
    assert_eq!(done.status, 3);
    assert!(done.stderr.contains("did not answer within 50 ms"), "{done:?}");
}

/// Adds TLS in front of a service, as a proxy does, with this certificate.
fn encrypted(service: &Service, authority: &Authority, name: &str) -> String {
    let certificate = authority.certificate(name, &[name]).unwrap();
    let chain = CertificateDer::pem_file_iter(certificate.certificate_file()).unwrap();
    let chain: Vec<_> = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(certificate.key_file()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let (acceptor, target) = (TlsAcceptor::from(Arc::new(config)), service.address());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that doesn't trust the certificate disconnects.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut plain = tokio::net::TcpStream::connect(target).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut plain).await;
            }
        });
    });
    format!("https://127.0.0.1:{port}")
}

#[test]
fn over_tls_a_service_is_asked_whose_certificate_is_trusted() {
    let (service, plain) = start();
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let ask = |url: &str, trusted: &Authority| {
        let mut command = binary();
        command.args(["check", "--server", url, "--limit", "api", "--key", "a"]);
        command.env("SSL_CERT_FILE", trusted.certificate_file()).env_remove("SSL_CERT_DIR");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let url = encrypted(&service, &authority, "127.0.0.1");
    assert_eq!(ask(&url, &authority), (Some(0), String::new()));
    let elsewhere = encrypted(&service, &authority, "limits.example");
    let encrypts_not = plain.replace("http://", "https://");
    for (url, trusted) in [(&url, &other), (&elsewhere, &authority), (&encrypts_not, &authority)] {
        let (status, stderr) = ask(url, trusted);
        assert_eq!(status, Some(3), "{stderr}");
        assert!(stderr.contains("can't be asked over TLS"), "{stderr}");
        assert!(stderr.contains("nothing was charged"), "{stderr}");
    }
}

/// A waiting call reconnects while a service is unreachable. An untrusted certificate is not
/// retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_trusts_is_not_tried_again() {
    let (service, _) = start();
    let url = encrypted(&service, &Authority::new().unwrap(), "127.0.0.1");
    let error = RemoteStore::connect(&url).unwrap().ping().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unexpected, "{error}");
    assert!(error.to_string().contains("can't be asked over TLS"), "{error}");
}
