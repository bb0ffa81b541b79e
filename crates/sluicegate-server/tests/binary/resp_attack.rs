//! Tests hostile clients in Redis' protocol.

use std::io::Write as _;
use std::time::Duration;

use crate::resp_client::{RespClient, command};
use crate::support::{File, Service};

fn start(more: &str) -> (Service, File) {
    let text = format!("limits: {{api: {{policies: [token_bucket 1/h burst 1000000]}}}}\n{more}");
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--resp", "127.0.0.1:0", "--config", file.path()]);
    (service, file)
}

fn connect(service: &Service) -> RespClient {
    RespClient::connect(service.address_of("resp"))
}

#[test]
fn bytes_that_are_no_command_end_their_connection_after_earlier_answers() {
    let (service, _file) = start("");
    for hostile in [
        &b"*1\r\n*1\r\n$4\r\nPING\r\n"[..],
        b"*1000000\r\n",
        b"*2\r\n$4\r\nECHO\r\n$1000000000\r\n",
        b"*2\r\n$4\r\nECHO\r\n$-1\r\n",
        b"*1\r\n$4\r\nPINGPONG\r\n",
        b"*\r\n",
        b"\x16\x03\x01 \"\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut client = connect(&service);
        client.send(command("PING"));
        client.send(hostile);
        assert_eq!(client.answer(), "+PONG");
        let rest = client.rest();
        let is_error = rest.starts_with("-ERR Protocol error: ") && rest.matches('\n').count() == 1;
        assert!(is_error, "{}: {rest}", hostile.escape_ascii());
    }
    let mut long = connect(&service);
    long.send(vec![b'x'; 17_000]);
    assert!(long.rest().starts_with("-ERR Protocol error: too big inline request"));
    assert_eq!(connect(&service).ask("PING"), "+PONG");
}

#[test]
fn a_command_that_is_cut_off_has_no_effect() {
    let (service, _file) = start("");
    let whole = command("SG.CHECK api a 1");
    for end in 0..whole.len() {
        let mut client = connect(&service);
        client.send(&whole[..end]);
        client.finish_sending();
        assert_eq!(client.rest(), "", "{end}");
    }
    assert!(connect(&service).ask("SG.PEEK api a").starts_with("*4 :1 :1000000 "));
}

#[test]
fn a_client_that_never_reads_uses_bounded_memory_and_others_are_served() {
    // The recorder's memory isn't the client's, and neither is that of code and threads that run for the first time.
    let (service, _file) = start("recorder: {size: 0}\n");
    assert_eq!(connect(&service).ask("ECHO a"), "a");
    assert_eq!(service.get("/v1/stream?follow=off").status, 200);
    let before = service.memory();
    let mut deaf = connect(&service).stream.into_inner();
    deaf.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let text = "x".repeat(10_000);
    let commands = command(&format!("ECHO {text}")).repeat(20);
    let mut sent = 0;
    // Until neither side takes more bytes.
    while let Ok(count) = deaf.write(commands.as_bytes()) {
        sent += count;
        assert!(sent < 1_000_000_000, "the service reads without being read");
    }
    assert_eq!(connect(&service).ask("PING"), "+PONG");
    let grown = service.memory().saturating_sub(before);
    assert!(grown < 8_000_000, "{grown} bytes more");
}

#[test]
fn idle_connections_give_their_place_to_others_and_active_ones_keep_it() {
    let (service, _file) = start("service: {max_connections: 20}\n");
    let mut active = connect(&service);
    assert_eq!(active.ask("PING"), "+PONG");
    let mut idle = Vec::new();
    for _ in 0..30 {
        let mut client = connect(&service);
        assert_eq!(client.ask("PING"), "+PONG");
        assert_eq!(active.ask("PING"), "+PONG");
        idle.push(client);
    }
    let closed = r#"sluicegate_connections_closed_total{listener="resp",reason="full"}"#;
    assert!(service.metric(closed) > 0);
    assert!(service.metric(r#"sluicegate_connections{listener="resp"}"#) <= 20);
}
