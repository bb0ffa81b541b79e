//! Users and passwords that change while the program runs, and users with only the rights that a limiter
//! needs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::{
    Limit, OpenOptions, OpenedLimit as _, Operation, Page, Request, Span, Store as _, StoreError,
    StoreErrorKind,
};
use sluicegate_redis::{Credentials, RedisLimit, RedisStore};
use sluicegate_testkit::servers::{self, Authority, Server};
use sluicegate_testkit::wait::until_async;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::rights::{documented, set_user};

// The rights in the documentation are enough for the whole conformance suite, and no other rights are
// granted.
sluicegate_conformance::suite!(leases each[servers::shared_each().unwrap().into_iter().map(limited)]);

fn limited(server: &Server) -> RedisStore {
    let prefix = servers::fresh_prefix("limited");
    let user = prefix.replace(':', "-");
    set_user(server, &user, &documented(&prefix));
    store(&format!("redis://{user}:pw@127.0.0.1:{}/1", server.port()), &prefix)
}

fn store(url: &str, prefix: &str) -> RedisStore {
    let builder = RedisStore::builder(url).unwrap().prefix(prefix.parse().unwrap());
    builder.deadline(Duration::from_secs(5)).build()
}

fn open(store: &RedisStore) -> RedisLimit {
    let limit = Limit::new("test", ["gcra 1/h burst 1000"]).unwrap();
    store.open(limit, OpenOptions::default())
}

async fn check(opened: &RedisLimit) -> Result<(), StoreError> {
    let asked = opened.ask(Request::check(b"alice")).wait().await;
    asked.map(drop).map_err(|error| error.as_store().unwrap().clone())
}

fn each() -> Vec<Server> {
    let binaries = servers::available().unwrap();
    binaries.iter().map(|binary| Server::builder(binary).start().unwrap()).collect()
}

/// A password in a file is sent with the next connection, without a restart.
#[tokio::test]
async fn a_password_that_is_rotated_in_its_file_is_used_by_the_next_connection() {
    let folder = Authority::new().unwrap();
    let file = folder.certificate_file().with_file_name("password");
    for mut server in each() {
        let prefix = servers::fresh_prefix("rotated");
        set_user(&server, "limiter", &documented(&prefix));
        fs::write(&file, "pw\n").unwrap();
        let url = format!("redis://127.0.0.1:{}/1", server.port());
        let read = file.clone();
        let store = RedisStore::builder(&url)
            .unwrap()
            .prefix(prefix.parse().unwrap())
            .deadline(Duration::from_secs(5))
            .credentials(move || Ok(Credentials::from_file(Some("limiter"), &read)?))
            .build();
        let opened = open(&store);
        check(&opened).await.unwrap();

        server.change_password("limiter", "another").unwrap();
        check(&opened).await.unwrap_or_else(|error| panic!("an open connection stays: {error}"));

        fs::write(&file, "another").unwrap();
        server.cli(&["CLIENT", "KILL", "USER", "limiter"]).unwrap();
        until_async("the new connection", async || check(&opened).await).await;

        // If the file is outdated, the error says so until it is updated.
        server.change_password("limiter", "third").unwrap();
        server.cli(&["CLIENT", "KILL", "USER", "limiter"]).unwrap();
        let error = until_async("a connection that is refused", async || {
            let error = check(&opened).await.unwrap_err();
            if error.kind() == StoreErrorKind::Unexpected { Ok(error) } else { Err(error) }
        })
        .await;
        let text = error.to_string();
        assert!(text.contains("another password for the user `limiter`"), "{text}");
        assert!(text.contains("password_file"), "{text}");
        fs::write(&file, "third\r\n").unwrap();
        until_async("the third password", async || check(&opened).await).await;
    }
}

/// The function is called once for each connection, and its errors are reported.
#[tokio::test]
async fn credentials_are_asked_for_at_each_connection() {
    let server = servers::shared().unwrap();
    let (asked, stage) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, staged) = (Arc::clone(&asked), Arc::clone(&stage));
    let prefix = servers::fresh_prefix("asked");
    set_user(server, "asked", &documented(&prefix));
    let url = format!("redis://:ignored@127.0.0.1:{}", server.port());
    let store = RedisStore::builder(&url)
        .unwrap()
        .prefix(prefix.parse().unwrap())
        .deadline(Duration::from_secs(5))
        .credentials(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            match staged.load(Ordering::Relaxed) {
                0 => Err("the vault is\x1b locked".into()),
                1 => panic!("a function of somebody else's"),
                _ => Ok(Credentials::new("asked", "pw")),
            }
        })
        .build();
    let opened = open(&store);
    for why in ["can't be signed in to: the vault is\\u{1b} locked", "panicked"] {
        let error = until_async("the next attempt", async || {
            let error = check(&opened).await.unwrap_err();
            if error.to_string().contains(why) { Ok(error) } else { Err(error) }
        })
        .await;
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        stage.fetch_add(1, Ordering::Relaxed);
    }
    until_async("an attempt that is answered", async || check(&opened).await).await;
    let then = asked.load(Ordering::Relaxed);
    assert!(then >= 3, "{then}");
    check(&opened).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), then, "once for each connection");
}

#[test]
fn a_password_file_that_can_t_be_used_is_named() {
    let folder = Authority::new().unwrap();
    let file = folder.certificate_file().with_file_name("password");
    let error = Credentials::from_file(None, "/no/such/file").unwrap_err().to_string();
    assert!(error.contains("/no/such/file can't be read (No such file"), "{error}");
    for empty in ["", "\r\n"] {
        fs::write(&file, empty).unwrap();
        let error = Credentials::from_file(None, &file).unwrap_err().to_string();
        assert!(error.contains("is empty: write the password"), "{error}");
    }
    fs::write(&file, " a b \n").unwrap();
    assert_eq!(Credentials::from_file(None, &file).unwrap(), Credentials::of_default_user(" a b "));
    assert_eq!(Credentials::from_file(Some("u"), &file).unwrap(), Credentials::new("u", " a b "));
}

#[tokio::test]
async fn who_is_not_let_in_is_told_who_it_was_and_what_to_write() {
    for server in each() {
        set_user(&server, "limiter", &documented("sg"));
        server.set_user("off", &["off", ">pw", "~*", "+@all"]).unwrap();
        let port = server.port();
        for (account, who) in [
            ("limiter:wrong", "another password for the user `limiter`"),
            ("off:pw", "another password for the user `off`"),
            ("nobody:pw", "or has no such user: write them into the URL"),
            ("limiter", "another password for the user `limiter`"),
            (":pw", "has no password for the default user: name a user, or leave the password out"),
        ] {
            let error = store(&format!("redis://{account}@127.0.0.1:{port}"), "sg").ping().await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unexpected, "{error}");
            assert!(error.to_string().contains(who), "{account}: {error}");
        }
        // A user that needs no password accepts any.
        server.set_user("open", &["on", "nopass", "~sg:*", "+@all"]).unwrap();
        store(&format!("redis://open@127.0.0.1:{port}"), "sg").ping().await.unwrap();
    }
}

/// A proxy in front of a server may make it forget the sign-in. Then another connection signs in again.
#[tokio::test]
async fn a_server_that_forgets_who_we_are_is_signed_in_to_again() {
    let server = servers::shared().unwrap();
    let prefix = servers::fresh_prefix("forgets");
    set_user(server, "forgotten", &documented(&prefix));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(forget(listener, server.port()));
    let store = store(&format!("redis://forgotten:pw@127.0.0.1:{port}"), &prefix);
    let opened = open(&store);
    let error = check(&opened).await.unwrap_err();
    assert!(error.to_string().contains("wants another user or password"), "{error}");
    until_async("another connection", async || check(&opened).await).await;
}

/// Forwards a connection to a server, but answers scripts on the first connection with `NOAUTH`.
async fn forget(listener: TcpListener, to: u16) {
    let (mut first, _) = listener.accept().await.unwrap();
    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    let (mut words, mut answer) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            length = first.read(&mut words) => match length.unwrap() {
                0 => break,
                length if words[..length].windows(4).any(|word| word == b"EVAL") => {
                    first.write_all(b"-NOAUTH Authentication required.\r\n").await.unwrap();
                }
                length => server.write_all(&words[..length]).await.unwrap(),
            },
            length = server.read(&mut answer) => {
                first.write_all(&answer[..length.unwrap()]).await.unwrap();
            }
        }
    }
    let (mut second, _) = listener.accept().await.unwrap();
    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut second, &mut server).await;
}

/// Connects to a socket with a user and a database.
#[tokio::test]
async fn a_socket_takes_users_and_databases_too() {
    for binary in servers::available().unwrap() {
        let server = Server::builder(&binary).socket_only().start().unwrap();
        let prefix = servers::fresh_prefix("socket");
        set_user(&server, "limiter", &documented(&prefix));
        let path = server.socket().map(Path::display).unwrap();
        for (database, url) in [
            ("", format!("unix://limiter:pw@{path}")),
            ("3", format!("valkey+unix://limiter:pw@{path}?db=3")),
        ] {
            let opened = open(&store(&url, &prefix));
            check(&opened).await.unwrap();
            let space = server.cli(&["INFO", "keyspace"]).unwrap();
            assert!(
                space.contains(&format!("db{}:keys=1", database.parse().unwrap_or(0))),
                "{space}"
            );
        }
        let url = format!("unix://limiter:wrong@{path}");
        let error = store(&url, &prefix).ping().await.unwrap_err().to_string();
        assert!(error.contains("another password for the user `limiter`"), "{error}");
        let error = store("unix:///no/such.sock", &prefix).ping().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("/no/such.sock can't be reached"), "{error}");
    }
}

/// Deciding needs no right to scan all keys. Listing bans does, and the error says so.
#[tokio::test]
async fn who_lists_bans_needs_one_right_more_and_is_told_which() {
    for server in each() {
        let prefix = servers::fresh_prefix("listing");
        let rules = documented(&prefix);
        let without: Vec<String> = rules.iter().filter(|rule| *rule != "+scan").cloned().collect();
        assert!(without.len() < rules.len(), "{rules:?}");
        set_user(&server, "limiter", &without);
        let store = store(&format!("redis://limiter:pw@127.0.0.1:{}", server.port()), &prefix);
        let limit = Limit::new("login", ["gcra 1/h"]).unwrap();
        let limit = limit.banning(Some("5/min for 15min".parse().unwrap()));
        let opened = store.open(limit, OpenOptions::default());
        let ban = Request::new(Operation::Ban { lasts: Span::HOUR }, b"mallory");
        assert!(opened.ask(ban).wait().await.unwrap().ban().is_some());
        let error = opened.bans(Page::first()).await.unwrap_err();
        let text = error.to_string();
        assert!(error.is_store_failure() && text.contains("grant it `+scan`"), "{text}");
        set_user(&server, "limiter", &rules);
        let listed = opened.bans(Page::first()).await.unwrap();
        assert!(listed.entries()[0].key().is(b"mallory"), "{listed:?}");
    }
}
