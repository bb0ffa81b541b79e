//! Servers over TLS: their decisions, and the errors for each possible problem of certificates, names and
//! ports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Limit, OpenOptions, OpenedLimit as _, Request, Store as _, StoreError, StoreErrorKind,
};
use sluicegate_redis::{RedisStore, TlsOptions};
use sluicegate_testkit::servers::{
    self, Authority, Certificate, GarbageServer, Misbehaviour, Server, ServerBuilder, ServerError,
};
use sluicegate_testkit::wait::until_async;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Starts a server with TLS, of the first program that was built with it.
fn start(configure: impl Fn(ServerBuilder) -> ServerBuilder) -> Server {
    let mut without = Vec::new();
    for binary in servers::available().unwrap() {
        match configure(Server::builder(&binary)).start() {
            Ok(server) => return server,
            Err(ServerError::Start { log, .. }) if log.contains("Failed finding TLS support") => {
                without.push(binary.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no server here was built with TLS, without which this can't be tested: {without:?}");
}

fn with(certificate: &Certificate, clients: Option<&Authority>) -> Server {
    start(|builder| builder.tls(certificate, clients))
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the URL of a server's TLS port, for clients that trust this authority.
fn url(server: &Server, authority: &Authority, more: &str) -> String {
    let ca = shown(authority.certificate_file());
    format!("rediss://127.0.0.1:{}?ca={ca}{more}", server.tls_port().unwrap())
}

fn own(certificate: &Certificate) -> String {
    let key = shown(certificate.key_file());
    format!("&cert={}&key={key}", shown(certificate.certificate_file()))
}

fn store(url: &str) -> RedisStore {
    let prefix = servers::fresh_prefix("tls").parse().unwrap();
    // On a busy machine a handshake takes longer than a program should wait.
    let patience = Duration::from_secs(5);
    let builder = RedisStore::builder(url).unwrap().prefix(prefix);
    builder.deadline(patience).connect_deadline(patience).build()
}

fn limit(specs: &[&str]) -> Limit {
    Limit::new("test", specs).unwrap()
}

/// Asserts that both a check and a ping of an unusable server fail with these words.
async fn assert_says(url: &str, why: &[&str]) {
    let store = store(url);
    let opened = store.open(limit(&["gcra 1/h"]), OpenOptions::default());
    let asked = opened.ask(Request::check(b"alice")).wait().await.unwrap_err();
    for error in [asked.as_store().unwrap().clone(), store.ping().await.unwrap_err()] {
        assert_is(&error, why);
    }
}

fn assert_is(error: &StoreError, why: &[&str]) {
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    for why in why.iter().chain(&["nothing was charged"]) {
        assert!(error.to_string().contains(why), "no `{why}` in: {error}");
    }
}

#[tokio::test]
async fn decisions_go_over_tls_by_address_name_and_another_name() {
    let authority = Authority::new().unwrap();
    let names = ["localhost", "127.0.0.1", "redis.example"];
    let server = with(&authority.certificate("server", &names).unwrap(), None);
    let port = server.tls_port().unwrap();
    let ca = shown(authority.certificate_file());
    for url in [
        url(&server, &authority, ""),
        url(&server, &authority, "&server_name=redis.example"),
        format!("rediss://localhost:{port}/2?ca={ca}"),
        format!("valkeys://127.0.0.1:{port}?ca={ca}"),
    ] {
        let store = store(&url);
        let opened = store.open(limit(&["gcra 1/h burst 2"]), OpenOptions::default());
        for allowed in [true, true, false] {
            let decision = opened.ask(Request::check(b"alice")).wait().await.unwrap();
            assert_eq!(decision.is_allowed(), allowed, "{url}");
        }
    }
}

/// A script that the server doesn't know is sent whole with each call. That is more than a socket takes in
/// one write, so an encrypting stream holds some of it back.
#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered_over_tls() {
    let authority = Authority::new().unwrap();
    let server = with(&authority.certificate("server", &["127.0.0.1"]).unwrap(), None);
    let store = store(&url(&server, &authority, ""));
    let opened = Arc::new(store.open(limit(&["sliding_log 1000/h"]), OpenOptions::default()));
    let mut calls = tokio::task::JoinSet::new();
    for caller in 0_u16..1_000 {
        let opened = Arc::clone(&opened);
        calls.spawn(async move {
            opened.ask(Request::check(&caller.to_be_bytes())).wait().await.map(drop)
        });
    }
    while let Some(answer) = calls.join_next().await {
        answer.unwrap().unwrap();
    }
}

#[tokio::test]
async fn options_in_code_take_the_place_of_those_in_the_url_and_need_an_encrypted_one() {
    let authority = Authority::new().unwrap();
    let server = with(&authority.certificate("server", &["127.0.0.1"]).unwrap(), None);
    let port = server.tls_port().unwrap();
    let mut options = TlsOptions::default();
    options.ca = Some(authority.certificate_file().to_owned());
    let builder = RedisStore::builder(&format!("rediss://127.0.0.1:{port}?ca=/none")).unwrap();
    let builder = builder.deadline(Duration::from_secs(5));
    builder.clone().tls(options.clone()).unwrap().build().ping().await.unwrap();
    let plain = RedisStore::builder(&server.url()).unwrap();
    let error = plain.clone().tls(options).unwrap_err().to_string();
    assert!(error.contains("is not encrypted: write rediss://"), "{error}");
    assert!(plain.tls(TlsOptions::default()).is_ok());
    let mut half = TlsOptions::default();
    half.cert = Some("/c.pem".into());
    let error = builder.tls(half).unwrap_err().to_string();
    assert!(error.contains("`cert` needs `key`"), "{error}");
}

#[tokio::test]
async fn what_is_wrong_with_the_certificate_of_a_server_is_said() {
    let (authority, stranger) = (Authority::new().unwrap(), Authority::new().unwrap());
    let server = with(&authority.certificate("server", &["127.0.0.1"]).unwrap(), None);
    let port = server.tls_port().unwrap();
    let file = shown(stranger.certificate_file());
    assert_says(
        &url(&server, &stranger, ""),
        &["a certificate that none of the authorities of", file, "has signed", "`?ca=FILE`"],
    )
    .await;
    assert_says(&format!("rediss://127.0.0.1:{port}"), &["this system trust", "certificate", "`"])
        .await;
    assert_says(
        &url(&server, &authority, "&server_name=other.example"),
        &["not for `other.example`", "127.0.0.1", "`?server_name=NAME`"],
    )
    .await;
    assert_says(
        &format!("rediss://localhost:{port}?ca={}", shown(authority.certificate_file())),
        &["not for `localhost`"],
    )
    .await;
    let expired = authority.expired("expired", &["127.0.0.1"]).unwrap();
    let server = with(&expired, None);
    let why = ["has a certificate that has expired", "renew it there"];
    assert_says(&url(&server, &authority, ""), &why).await;
}

#[tokio::test]
async fn a_server_that_wants_a_client_certificate_gets_the_right_one_or_says_so() {
    let (authority, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
    let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
    for versions in ["TLSv1.2", "TLSv1.3"] {
        let server = start(|builder| {
            builder.tls(&certificate, Some(&clients)).options(&["--tls-protocols", versions])
        });
        let client = clients.certificate("client", &["client"]).unwrap();
        store(&url(&server, &authority, &own(&client))).ping().await.unwrap();
        // The server's alert comes with the end of the connection, which may overtake it.
        for _ in 0..20 {
            let none = ["asked for a client certificate, got none", "`?cert=FILE&key=FILE`"];
            assert_says(&url(&server, &authority, ""), &none).await;
            let foreign = authority.certificate("foreign", &["client"]).unwrap();
            let wrong = ["asked for a client certificate, got that of `cert`", "that it trusts"];
            assert_says(&url(&server, &authority, &own(&foreign)), &wrong).await;
        }
        let expired = clients.expired("old", &["client"]).unwrap();
        let wrong =
            ["asked for a client certificate, got that of `cert`", "name one that is valid"];
        assert_says(&url(&server, &authority, &own(&expired)), &wrong).await;
    }
}

#[tokio::test]
async fn a_port_with_tls_where_none_was_meant_and_the_reverse_say_what_to_write() {
    let authority = Authority::new().unwrap();
    let server = with(&authority.certificate("server", &["127.0.0.1"]).unwrap(), None);
    for database in ["", "/3"] {
        let port = server.tls_port().unwrap();
        let rediss = format!("write its URL as rediss://127.0.0.1:{port}{database}");
        let url = format!("redis://:pw@127.0.0.1:{port}{database}");
        assert_says(&url, &["TLS port", &rediss]).await;
        for server in servers::shared_each().unwrap() {
            let redis = format!("redis://127.0.0.1:{}{database}", server.port());
            let url = format!("{}?ca={}", redis.replace("redis", "rediss"), ca(&authority));
            assert_says(&url, &["a port without TLS", &redis]).await;
        }
    }
    // A server that requires a password is a port without TLS, too.
    let binary = servers::available().unwrap().remove(0);
    let locked = Server::builder(&binary).password("secret").start().unwrap();
    let url = format!("rediss://:secret@127.0.0.1:{}?ca={}", locked.port(), ca(&authority));
    assert_says(&url, &["a port without TLS"]).await;
}

fn ca(authority: &Authority) -> &str {
    shown(authority.certificate_file())
}

#[tokio::test]
async fn what_speaks_neither_tls_nor_redis_is_no_port_without_tls() {
    let authority = Authority::new().unwrap();
    for answer in [b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), Vec::new()] {
        let server = GarbageServer::start(Misbehaviour::Answer(answer)).unwrap();
        let url = format!("{}?ca={}", server.url().replace("redis", "rediss"), ca(&authority));
        let error = store(&url).ping().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(!error.to_string().contains("without TLS"), "{error}");
    }
}

#[tokio::test]
async fn a_server_of_versions_that_are_too_old_says_so() {
    // Today's programs don't offer such versions. Such a server would send this alert of the protocol
    // version.
    let alert = Misbehaviour::Answer(b"\x15\x03\x01\x00\x02\x02\x46".to_vec());
    let server = GarbageServer::start(alert).unwrap();
    let authority = Authority::new().unwrap();
    let url = format!("{}?ca={}", server.url().replace("redis", "rediss"), ca(&authority));
    assert_says(&url, &["none of the versions", "TLS 1.2 or 1.3"]).await;
}

/// A handshake may take longer than the probe whether the port uses TLS at all.
#[tokio::test]
async fn a_slow_handshake_is_waited_for() {
    let authority = Authority::new().unwrap();
    let server = with(&authority.certificate("server", &["127.0.0.1"]).unwrap(), None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let to = server.tls_port().unwrap();
    tokio::spawn(async move {
        // Hold the first connection until the second, which is the probe, has its answer.
        let (mut held, _) = listener.accept().await.unwrap();
        let (mut question, _) = listener.accept().await.unwrap();
        let mut words = [0; 6];
        question.read_exact(&mut words).await.unwrap();
        question.write_all(b"\x15\x03\x01\x00\x02\x02\x46").await.unwrap();
        let mut server = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut held, &mut server).await;
    });
    store(&format!("rediss://127.0.0.1:{port}?ca={}", ca(&authority))).ping().await.unwrap();
}

#[tokio::test]
async fn files_that_are_missing_or_garbled_are_named() {
    let authority = Authority::new().unwrap();
    let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
    let other = authority.certificate("other", &["client"]).unwrap();
    let server = with(&certificate, None);
    let folder = authority.certificate_file().parent().unwrap();
    let garbled = folder.join("garbled.pem");
    let text = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    fs::write(&garbled, text).unwrap();
    let empty = folder.join("empty.pem");
    fs::write(&empty, "").unwrap();
    let (garbled, empty) = (shown(&garbled), shown(&empty));
    let (cert, key) = (shown(certificate.certificate_file()), shown(certificate.key_file()));
    let port = server.tls_port().unwrap();
    for (options, option, file, why) in [
        ("ca=/no/such.pem".to_owned(), "ca", "/no/such.pem", "can't be read (No such file"),
        (format!("ca={empty}"), "ca", empty, "holds no certificate in PEM"),
        (format!("ca={garbled}"), "ca", garbled, "holds no certificate in PEM that can be under"),
        (format!("ca={key}"), "ca", key, "holds no certificate in PEM"),
        (format!("cert=/none&key={key}"), "cert", "/none", "can't be read"),
        (format!("cert={cert}&key=/none"), "key", "/none", "can't be read"),
        (format!("cert={cert}&key={cert}"), "key", cert, "holds no private key in PEM"),
        (
            format!("cert={cert}&key={}", shown(other.key_file())),
            "key",
            shown(other.key_file()),
            "does not go with the certificate of `cert`",
        ),
    ] {
        let why = ["can't be asked over TLS", &format!("`{option}`, {file}, {why}")[..]];
        assert_says(&format!("rediss://127.0.0.1:{port}?{options}"), &why).await;
    }
}

/// Renewed certificates are written to the same files, and the next connection uses them.
#[tokio::test]
async fn a_certificate_that_was_renewed_is_the_one_that_is_used() {
    let (authority, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
    let certificate = authority.certificate("server", &["127.0.0.1"]).unwrap();
    let server = with(&certificate, Some(&clients));
    let client = clients.expired("client", &["client"]).unwrap();
    let store = store(&url(&server, &authority, &own(&client)));
    let why = ["asked for a client certificate, got that of `cert`"];
    assert_is(&store.ping().await.unwrap_err(), &why);
    // It has the same file names as the current one.
    let renewed = clients.certificate("client", &["client"]).unwrap();
    assert_eq!(renewed.certificate_file(), client.certificate_file());
    until_async("a connection with the new certificate", async || store.ping().await).await;
}
