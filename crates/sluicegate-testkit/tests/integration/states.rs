//! Tests of servers on a socket, with users, with their own clock, and in every state in which a
//! client may find them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::ErrorKind;
use std::time::Duration;

use sluicegate_testkit::servers::{Connection, FakeClock, Server, available};
use sluicegate_testkit::wait::until;

const PATIENCE: Duration = Duration::from_secs(5);

fn ask(connection: &mut Connection, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    connection.command(&words).unwrap().to_string()
}

#[test]
fn a_server_listens_on_a_socket_with_and_without_a_port() {
    for binary in available().unwrap() {
        let both = Server::builder(&binary).socket().start().unwrap();
        both.cli(&["SET", "key", "1"]).unwrap();
        let mut connection = Connection::open_socket(both.socket().unwrap(), PATIENCE).unwrap();
        assert_eq!(ask(&mut connection, &["GET", "key"]), "1");

        let mut only = Server::builder(&binary).socket_only().start().unwrap();
        assert_eq!(only.port(), 0);
        assert_eq!(only.cli(&["CONFIG", "GET", "port"]).unwrap(), "port\n0");
        let path = only.socket().unwrap().to_owned();
        only.restart().unwrap();
        let mut connection = Connection::open_socket(&path, PATIENCE).unwrap();
        assert_eq!(ask(&mut connection, &["PING"]), "PONG");
        drop(only);
        let error = Connection::open_socket(&path, PATIENCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn users_may_do_what_their_rules_say_and_passwords_change() {
    for binary in available().unwrap() {
        let mut server = Server::builder(&binary).password("first").start().unwrap();
        server.set_user("reader", &["on", ">one", "~a:*", "+get"]).unwrap();
        let mut reader = server.connect(PATIENCE).unwrap();
        assert!(ask(&mut reader, &["GET", "a:1"]).starts_with("NOAUTH"));
        assert_eq!(ask(&mut reader, &["AUTH", "reader", "one"]), "OK");
        assert_eq!(ask(&mut reader, &["GET", "a:1"]), "(nil)");
        for words in [&["GET", "b:1"][..], &["SET", "a:1", "1"]] {
            let why = ask(&mut reader, words);
            assert!(why.starts_with("NOPERM"), "{why}");
        }
        server.change_password("reader", "two").unwrap();
        assert_eq!(ask(&mut reader, &["GET", "a:1"]), "(nil)");
        let mut again = server.connect(PATIENCE).unwrap();
        assert!(ask(&mut again, &["AUTH", "reader", "one"]).starts_with("WRONGPASS"));
        assert_eq!(ask(&mut again, &["AUTH", "reader", "two"]), "OK");
        server.change_password("default", "second").unwrap();
        assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
    }
}

#[test]
fn a_server_runs_by_a_clock_that_is_set_while_it_runs() {
    let binaries = available().unwrap();
    let is_valkey =
        |binary: &&_| sluicegate_testkit::servers::ServerBinary::product(binary) == "valkey";
    let valkey = binaries.iter().find(is_valkey).expect("a Valkey: run `cargo xtask setup`");
    let clock = FakeClock::new().unwrap();
    let faked = Server::builder(valkey).clock(&clock).start().unwrap();
    let true_time = Server::start_with(valkey, &[]).unwrap();
    let seconds = |server: &Server| -> i64 {
        server.cli(&["TIME"]).unwrap().lines().next().unwrap().parse().unwrap()
    };
    for offset in [0, 3600, 3596, -3600, -3604, 0] {
        clock.set_offset(offset).unwrap();
        until("the server goes by the clock", || {
            let (before, shown, after) =
                (seconds(&true_time), seconds(&faked) - offset, seconds(&true_time));
            if (before..=after).contains(&shown) { Ok(()) } else { Err((before, shown, after)) }
        });
    }
    faked.cli(&["SET", "key", "1", "EX", "60"]).unwrap();
    clock.set_offset(3600).unwrap();
    until("the key has expired", || match faked.cli(&["EXISTS", "key"]).unwrap() {
        count if count == "0" => Ok(()),
        count => Err(count),
    });
}

#[test]
fn a_server_that_reads_its_data_answers_loading_until_it_has() {
    for binary in available().unwrap() {
        let mut server = Server::start_with(&binary, &[]).unwrap();
        server.start_loading().unwrap();
        let why = server.cli(&["GET", "key:1"]).unwrap_err().to_string();
        assert!(why.contains("LOADING"), "{why}");
        server.finish_loading().unwrap();
        until("all is read", || server.cli(&["DBSIZE"]).map_err(|error| error.to_string()));
        assert_eq!(server.cli(&["DBSIZE"]).unwrap(), "2000");
    }
}

#[test]
fn a_full_or_busy_server_says_so() {
    for binary in available().unwrap() {
        let options = ["--maxmemory", "1", "--maxmemory-policy", "noeviction"];
        let server = Server::start_with(&binary, &options).unwrap();
        let why = server.cli(&["SET", "key", "1"]).unwrap_err().to_string();
        assert!(why.contains("OOM"), "{why}");
        assert_eq!(server.cli(&["EXISTS", "key"]).unwrap(), "0");

        let server = Server::start_with(&binary, &["--lua-time-limit", "1"]).unwrap();
        let mut busy = server.connect(PATIENCE).unwrap();
        busy.send(&[b"EVAL", b"while true do end", b"0"]).unwrap();
        until("the server is busy", || match server.cli(&["PING"]) {
            Err(error) if error.to_string().contains("BUSY") => Ok(()),
            outcome => Err(format!("{outcome:?}")),
        });
        assert_eq!(server.cli(&["SCRIPT", "KILL"]).unwrap(), "OK");
        busy.receive().unwrap();
        assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
    }
}
