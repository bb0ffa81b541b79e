//! Tests that real servers start, answer, misbehave on demand and never outlive their owner.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the helpers of tests may do what tests may"
)]

use std::collections::HashSet;
use std::env;
use std::io::{ErrorKind, stdin};
use std::net::{Ipv4Addr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use sluicegate_testkit::processes::{Process, say, told};
use sluicegate_testkit::servers::{
    Connection, GarbageServer, Misbehaviour, Reply, Server, ServerError, available, fresh_prefix,
    shared, shared_each,
};
use sluicegate_testkit::wait::until;

const PATIENCE: Duration = Duration::from_secs(5);
/// A short patience, for tests in which no answer can ever come.
const IMPATIENCE: Duration = Duration::from_millis(50);

#[test]
fn every_program_found_starts_and_answers() {
    let binaries = available().expect("a server program");
    for binary in &binaries {
        println!("testing {binary}");
        let server = Server::start_with(binary, &[]).expect("the server starts");
        assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
        assert_eq!(server.binary(), binary);
        let information = server.cli(&["INFO", "server"]).unwrap();
        let pid = format!("process_id:{}\r\n", server.pid().unwrap());
        assert!(information.contains(&pid), "{pid} is not in {information}");
        // Valkey reports the compatible Redis version and its own version.
        let version = format!("_version:{}\r\n", binary.version());
        assert!(information.contains(&version), "{version} is not in {information}");
    }
}

#[test]
fn no_program_is_listed_twice() {
    let binaries = available().expect("a server program");
    let files: HashSet<_> = binaries.iter().map(|one| one.path().canonicalize().unwrap()).collect();
    let versions: HashSet<_> = binaries.iter().map(|one| (one.product(), one.version())).collect();
    assert_eq!((files.len(), versions.len()), (binaries.len(), binaries.len()), "{binaries:?}");
}

/// Runs in its own process, whose environment names a program that isn't a server.
#[test]
fn a_named_program_that_does_not_work_is_an_error_and_not_passed_over() {
    for (named, why) in [("/no/such/program", "No such file"), ("/bin/sh", "not a server's")] {
        let output = Command::new(env::current_exe().unwrap())
            .args(["servers::no_program_is_listed_twice", "--exact"])
            .env("SLUICEGATE_REDIS_SERVER", named)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{text}");
        assert!(text.contains("SLUICEGATE_REDIS_SERVER must list") && text.contains(why), "{text}");
    }
}

#[test]
fn what_is_set_is_got_whatever_its_bytes() {
    let server = shared().expect("a shared server");
    let key = format!("{}bytes", fresh_prefix("set-get"));
    let value = b"\x00\r\n$3\r\n\xff";
    let set = server.command(&[b"SET", key.as_bytes(), value]).unwrap();
    assert_eq!(set, Reply::Status("OK".to_owned()));
    let got = server.command(&[b"GET", key.as_bytes()]).unwrap();
    assert_eq!(got, Reply::Bytes(value.to_vec()));
    assert_eq!(server.command(&[b"GET", b"no such key"]).unwrap(), Reply::Nil);
    assert_eq!(server.command(&[b"INCRBY", b"{n}", b"0"]).unwrap(), Reply::Integer(0));
}

#[test]
fn an_error_reply_is_a_reply_to_command_and_an_error_to_cli() {
    let server = shared().expect("a shared server");
    let reply = server.command(&[b"NOSUCHCOMMAND"]).unwrap();
    assert!(matches!(&reply, Reply::Error(text) if text.starts_with("ERR")), "{reply:?}");
    let error = server.cli(&["NOSUCHCOMMAND"]).unwrap_err();
    assert!(matches!(&error, ServerError::Refused(text) if text.starts_with("ERR")), "{error}");
}

#[test]
fn options_reach_the_server_and_the_disk_stays_unused() {
    let binaries = available().expect("a server program");
    let options = ["--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"];
    for binary in &binaries {
        let server = Server::start_with(binary, &options).unwrap();
        let setting = |name| server.cli(&["CONFIG", "GET", name]).unwrap();
        assert_eq!(setting("maxmemory"), "maxmemory\n4194304");
        assert_eq!(setting("maxmemory-policy"), "maxmemory-policy\nallkeys-lru");
        assert_eq!(setting("save"), "save\n");
        assert_eq!(setting("appendonly"), "appendonly\nno");
    }
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let binaries = available().expect("a server program");
    let error = Server::start_with(&binaries[0], &["--no-such-option", "1"]).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ServerError::Start { .. }), "{text}");
    assert!(text.contains("ended while starting"), "{text}");
    assert!(text.contains("no-such-option"), "{text}");
}

#[test]
fn the_shared_server_is_started_once() {
    let handles = [(); 4].map(|()| std::thread::spawn(|| shared().unwrap().port()));
    let ports = handles.map(|handle| handle.join().unwrap());
    assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    let each = shared_each().unwrap();
    assert_eq!(each.len(), available().unwrap().len());
    assert_eq!(each[0].port(), ports[0]);
}

#[test]
fn a_paused_server_keeps_connections_and_answers_nothing_until_resumed() {
    let mut server = Server::start().unwrap();
    server.pause().unwrap();
    // The system still accepts connections for it; only answers are missing.
    let error = server.connect(IMPATIENCE).unwrap().command(&[b"PING"]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    server.resume().unwrap();
    assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
}

#[test]
fn a_killed_server_is_gone_and_a_restarted_one_is_back_on_its_port_without_data() {
    let mut server = Server::start().unwrap();
    let (port, first_pid) = (server.port(), server.pid().unwrap());
    server.cli(&["SET", "key", "value"]).unwrap();
    let mut connection = server.connect(PATIENCE).unwrap();

    server.kill().unwrap();
    assert!(!is_alive(first_pid));
    connection.command(&[b"PING"]).expect_err("the connection is broken");
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(matches!(server.kill(), Err(ServerError::NotRunning)));
    assert!(matches!(server.pause(), Err(ServerError::NotRunning)));

    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid().unwrap(), first_pid);
    assert_eq!(server.cli(&["EXISTS", "key"]).unwrap(), "0");

    // A running server is restarted too, even if it is paused.
    server.pause().unwrap();
    server.restart().unwrap();
    assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
}

#[test]
fn a_restart_that_fails_can_be_tried_again() {
    let mut server = Server::start().unwrap();
    server.kill().unwrap();
    let occupant = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    let error = server.restart().unwrap_err();
    assert!(error.to_string().contains("already in use"), "{error}");
    drop(occupant);
    eventually("the port is free", || is_free(server.port()));
    server.restart().unwrap();
    assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
}

#[test]
fn data_on_disk_outlives_a_restart_if_the_options_say_so() {
    let binaries = available().expect("a server program");
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start_with(&binaries[0], &options).unwrap();
    server.cli(&["SET", "key", "value"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.cli(&["GET", "key"]).unwrap(), "value");
}

#[test]
fn a_dropped_server_leaves_no_process_and_no_folder() {
    let server = Server::start().unwrap();
    let (pid, folder) = (server.pid().unwrap(), folder_of(&server));
    assert!(is_alive(pid) && Path::new(&folder).is_dir());
    drop(server);
    assert!(!is_alive(pid));
    assert!(!Path::new(&folder).exists());
}

#[test]
fn a_paused_server_is_dropped_all_the_same() {
    let mut server = Server::start().unwrap();
    let pid = server.pid().unwrap();
    server.pause().unwrap();
    drop(server);
    assert!(!is_alive(pid));
}

#[test]
fn a_server_that_shut_down_by_itself_is_dropped_and_restarted_like_any_other() {
    let mut server = Server::start().unwrap();
    let (pid, folder) = (server.pid().unwrap(), folder_of(&server));
    server.command(&[b"SHUTDOWN", b"NOSAVE"]).expect_err("it closes the connection");
    eventually("the server has shut down", || !is_alive(pid));
    server.restart().unwrap();
    assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
    drop(server);
    assert!(!Path::new(&folder).exists());
}

#[test]
fn a_server_dies_with_the_panic_of_its_owner() {
    let mut pid = 0;
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let server = Server::start().unwrap();
        pid = server.pid().unwrap();
        panic!("as a failing test does");
    }));
    unwound.expect_err("the owner panicked");
    assert_ne!(pid, 0);
    assert!(!is_alive(pid));
}

#[test]
#[ignore = "a process of `servers_die_with_the_process_that_is_killed`"]
fn process_that_holds_servers_until_it_is_killed() {
    let [] = told();
    let owned = Server::start().unwrap();
    let mut paused = Server::start().unwrap();
    paused.pause().unwrap();
    let shared = shared().unwrap();
    for server in [&owned, &paused, shared] {
        say(server.pid().unwrap());
    }
    say(folder_of(&owned));
    // Its standard input ends early only if the test that started it is gone.
    stdin().read_line(&mut String::new()).unwrap();
    panic!("it was to be killed");
}

#[test]
fn servers_die_with_the_process_that_is_killed() {
    let mut victim = Process::start("servers::process_that_holds_servers_until_it_is_killed", &[]);
    let pids = [(); 3].map(|()| victim.hear().unwrap().parse::<u32>().unwrap());
    let folder = victim.hear().unwrap();
    for pid in pids {
        assert!(is_alive(pid), "{pid} should run");
    }
    victim.kill();
    for pid in pids {
        eventually("a server dies with the process that owned it", || !is_alive(pid));
    }
    eventually("its folder goes too", || !Path::new(&folder).exists());
}

#[test]
fn a_garbage_server_answers_garbage() {
    let server = GarbageServer::start(Misbehaviour::Answer(b"what?\r\n".to_vec())).unwrap();
    let mut connection = Connection::open(server.port(), PATIENCE).unwrap();
    let error = connection.command(&[b"PING"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(server.accepted(), 1);
}

#[test]
fn a_silent_server_accepts_and_never_answers() {
    let server = GarbageServer::start(Misbehaviour::Silence).unwrap();
    let mut connection = Connection::open(server.port(), IMPATIENCE).unwrap();
    let error = connection.command(&[b"PING"]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
}

#[test]
fn a_closing_server_ends_every_connection() {
    let server = GarbageServer::start(Misbehaviour::Close).unwrap();
    for _ in 0..3 {
        let mut connection = Connection::open(server.port(), PATIENCE).unwrap();
        let error = connection.command(&[b"PING"]).unwrap_err();
        // The error depends on whether the command was already being sent.
        let broken = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(broken.contains(&error.kind()), "{error}");
    }
    assert_eq!(server.accepted(), 3);
}

#[test]
fn a_dropped_garbage_server_breaks_its_connections_and_frees_its_port() {
    let server = GarbageServer::start(Misbehaviour::Silence).unwrap();
    let port = server.port();
    let mut connection = Connection::open(port, PATIENCE).unwrap();
    eventually("the connection is accepted", || server.accepted() == 1);
    drop(server);
    let error = connection.command(&[b"PING"]).unwrap_err();
    assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    eventually("its port is free", || is_free(port));
}

fn folder_of(server: &Server) -> String {
    let setting = server.cli(&["CONFIG", "GET", "dir"]).unwrap();
    setting.lines().nth(1).unwrap().to_owned()
}

/// Returns `true` if a port is free. A closed listener of this process can survive for a moment:
/// another test's child process holds a copy until it runs its own program.
fn is_free(port: u16) -> bool {
    let outcome = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    outcome.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn is_alive(pid: u32) -> bool {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    test_kill_process(pid).is_ok()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    until(what, || if condition() { Ok(()) } else { Err(()) });
}
