//! Tests that a proxy disturbs connections exactly as configured.
//!
//! Delays are too long for any test: the delayed bytes arrive when the delay is switched off.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use sluicegate_testkit::proxy::Direction::{Replies, Requests};
use sluicegate_testkit::proxy::{Cut, Direction, Fault, Proxy, ReplyFault};
use sluicegate_testkit::servers::{Connection, GarbageServer, Misbehaviour, Server, shared};
use sluicegate_testkit::wait::until;

const PATIENCE: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

fn proxy() -> Proxy {
    Proxy::start(shared().unwrap().port()).unwrap()
}

fn connect(proxy: &Proxy) -> Connection {
    Connection::open(proxy.port(), PATIENCE).unwrap()
}

fn echo(connection: &mut Connection, word: &str) -> String {
    connection.command(&[b"ECHO", word.as_bytes()]).unwrap().to_string()
}

fn await_received(proxy: &Proxy, direction: Direction, count: u64) {
    until("bytes at the proxy", || match proxy.received(direction) {
        received if received >= count => Ok(()),
        received => Err(received),
    });
}

#[test]
fn without_faults_everything_goes_through_and_is_counted() {
    let proxy = proxy();
    let mut connection = connect(&proxy);
    let long = "x".repeat(1 << 20);
    assert_eq!(echo(&mut connection, &long), long);
    assert_eq!(echo(&mut connection, "again"), "again");
    assert_eq!((proxy.accepted(), proxy.open()), (1, 1));
    for direction in [Requests, Replies] {
        until("all that came was passed on", || {
            let counts = (proxy.received(direction), proxy.passed(direction));
            if counts.0 == counts.1 && counts.0 > 1 << 20 { Ok(()) } else { Err(counts) }
        });
    }
    drop(connection);
    until("it is closed", || if proxy.open() == 0 { Ok(()) } else { Err(()) });
}

#[test]
fn what_is_held_or_delayed_arrives_in_order_when_it_may() {
    for direction in [Requests, Replies] {
        for fault in [Fault::Hold, Fault::Delay(HOUR), Fault::Dribble(HOUR)] {
            let proxy = proxy();
            let mut connection = connect(&proxy);
            assert_eq!(echo(&mut connection, "before"), "before");
            let (received, passed) = (proxy.received(direction), proxy.passed(direction));
            proxy.set(direction, fault);
            connection.send(&[b"ECHO", b"1"]).unwrap();
            connection.send(&[b"ECHO", b"2"]).unwrap();
            await_received(&proxy, direction, received + 1);
            assert_eq!(proxy.passed(direction), passed, "{direction:?} {fault:?}");
            proxy.heal();
            let replies = [connection.receive().unwrap(), connection.receive().unwrap()];
            assert_eq!(replies.map(|reply| reply.to_string()), ["1", "2"]);
        }
    }
}

#[test]
fn a_delay_or_a_dribble_passes_by_itself() {
    let proxy = proxy();
    let mut connection = connect(&proxy);
    for fault in [Fault::Delay, Fault::Dribble] {
        proxy.set(Requests, fault(Duration::from_millis(1)));
        proxy.set(Replies, fault(Duration::from_millis(1)));
        assert_eq!(echo(&mut connection, "late"), "late");
    }
}

#[test]
fn a_reply_is_cut_off_after_so_many_bytes_and_only_once() {
    for cut in [Cut::Finish, Cut::Reset] {
        let proxy = proxy();
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        proxy.set(Replies, Fault::CutAfter(3, cut));
        stream.write_all(b"PING\r\n").unwrap();
        let mut got = Vec::new();
        let outcome = stream.read_to_end(&mut got);
        match cut {
            Cut::Finish => assert_eq!((outcome.unwrap(), &got[..]), (3, &b"+PO"[..])),
            Cut::Reset => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset),
        }
        assert_eq!(echo(&mut connect(&proxy), "after"), "after");
    }
}

#[test]
fn a_request_that_is_cut_off_never_reaches_the_server() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let mut connection = connect(&proxy);
    proxy.set(Requests, Fault::CutAfter(0, Cut::Finish));
    connection.command(&[b"INCR", b"key"]).unwrap_err();
    assert_eq!(server.cli(&["EXISTS", "key"]).unwrap(), "0");
    proxy.set(Replies, Fault::CutAfter(0, Cut::Reset));
    connect(&proxy).command(&[b"INCR", b"key"]).unwrap_err();
    assert_eq!(server.cli(&["GET", "key"]).unwrap(), "1");
}

#[test]
fn open_connections_are_cut_and_new_ones_are_not() {
    for cut in [Cut::Finish, Cut::Reset] {
        let proxy = proxy();
        let mut connections = [connect(&proxy), connect(&proxy)];
        connections.iter_mut().for_each(|one| assert_eq!(echo(one, "a"), "a"));
        proxy.cut(cut);
        for connection in &mut connections {
            let kind = connection.receive().unwrap_err().kind();
            let expected = match cut {
                Cut::Finish => ErrorKind::UnexpectedEof,
                Cut::Reset => ErrorKind::ConnectionReset,
            };
            assert_eq!(kind, expected);
        }
        assert_eq!(echo(&mut connect(&proxy), "b"), "b");
    }
}

#[test]
fn new_connections_are_refused_while_open_ones_stay() {
    let proxy = proxy();
    let mut connection = connect(&proxy);
    assert_eq!(echo(&mut connection, "a"), "a");
    proxy.refuse();
    let error = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(echo(&mut connection, "b"), "b");
    proxy.accept().unwrap();
    assert_eq!(echo(&mut connect(&proxy), "c"), "c");
}

#[test]
fn whole_replies_swap_places_come_twice_or_not_at_all() {
    let all = [
        (ReplyFault::Swap, ["2", "1", "3"]),
        (ReplyFault::Duplicate, ["1", "1", "2"]),
        (ReplyFault::Drop, ["2", "3", "4"]),
    ];
    for (fault, expected) in all {
        let proxy = proxy();
        let mut connection = connect(&proxy);
        // The fault works for every way in which the replies are split.
        assert_eq!(echo(&mut connection, "before"), "before");
        proxy.set_next_reply(fault);
        assert!(!proxy.has_met_a_reply());
        for word in ["1", "2", "3", "4"] {
            connection.send(&[b"ECHO", word.as_bytes()]).unwrap();
        }
        let got = [(); 3].map(|()| connection.receive().unwrap().to_string());
        assert_eq!(got, expected, "{fault:?}");
        assert!(proxy.has_met_a_reply());
    }
}

#[test]
fn a_reply_that_is_truncated_is_followed_by_the_next_one() {
    let proxy = proxy();
    let mut connection = connect(&proxy);
    proxy.set_next_reply(ReplyFault::Truncate);
    for word in ["123456", "+123456"] {
        connection.send(&[b"ECHO", word.as_bytes()]).unwrap();
    }
    // `$6␍␊12` and `$7␍␊+123456␍␊`: the length fits the bytes that follow, but they don't end
    // there.
    assert!(connection.receive().is_err());
    assert!(proxy.has_met_a_reply());
}

#[test]
fn what_is_no_reply_goes_through_as_it_is() {
    let alert = b"\x15\x03\x03\x00\x02\x02\x46".to_vec();
    let server = GarbageServer::start(Misbehaviour::Answer(alert.clone())).unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    proxy.set_next_reply(ReplyFault::Drop);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut got = vec![0; alert.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got, alert);
}

#[test]
fn a_target_that_is_not_there_resets_and_another_may_be_named() {
    let mut server = Server::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    server.kill().unwrap();
    let opened = Connection::open(proxy.port(), PATIENCE);
    opened.and_then(|mut connection| connection.command(&[b"PING"])).unwrap_err();
    proxy.set_target(([127, 0, 0, 1], shared().unwrap().port()).into());
    assert_eq!(echo(&mut connect(&proxy), "there"), "there");
}
