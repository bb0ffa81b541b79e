//! Readers of the stream that take nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};
use sluicegate_testkit::servers::FakeClock;
use socket2::{Domain, Socket, Type};

use crate::event_stream::Stream;
use crate::support::{File, Service, binary};

/// The maximum number of streams.
const STREAMS: u64 = 32;

/// A service whose clocks a test moves, and a reader that takes every event.
struct Driven {
    service: Service,
    reader: Stream,
    offset: File,
    seconds: u64,
}

impl Driven {
    /// Starts the service with 200 limits.
    fn start() -> Self {
        let mut limits = "limits:\n".to_owned();
        for number in 0..200 {
            let _ = writeln!(limits, "  l{number}: {{policies: [\"fixed_window 9/d\"]}}");
        }
        let (file, offset) = (File::new("limits.yaml", &limits), File::new("offset", "+0\n"));
        let mut command = binary();
        // Timers use the monotonic clock, so it moves too. The file is replaced as a whole, because each look at a
        // clock reads it.
        command.envs(FakeClock::new().unwrap().environment());
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "0");
        command.env("FAKETIME_TIMESTAMP_FILE", offset.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config", file.path()]);
        let service = Service::of(command);
        let reader = Stream::open(&service, "count=0&recent=off");
        Self { service, reader, offset, seconds: 0 }
    }

    /// Lets a second pass for the service. Returns its state.
    fn second(&mut self) -> Value {
        self.seconds += 1;
        self.offset.replace(&format!("+{}\n", self.seconds));
        let least = 1_000 * self.seconds;
        self.reader.until("now", |now| now["uptime_ms"].as_u64().unwrap() >= least)
    }

    /// Opens a stream that is never read. Its buffers at both ends are small.
    fn open_unread(&self) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(1).unwrap();
        // The sender's buffer holds a number of segments, which have 64 KiB on the loopback interface by default.
        socket.set_tcp_mss(536).unwrap();
        socket.connect(&self.service.address().into()).unwrap();
        let mut stream = TcpStream::from(socket);
        let host = self.service.address();
        let head = format!("GET /v1/stream?count=200 HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }
}

/// Each reader that takes nothing may hold some buffers for 30 s, and then its place is free again.
#[test]
fn readers_that_take_nothing_are_disconnected_after_30_s_and_slow_no_other() {
    let mut driven = Driven::start();
    let unread: Vec<_> = (1..STREAMS).map(|_| driven.open_unread()).collect();
    while driven.second()["streams"] != STREAMS {}
    let opened = driven.seconds;
    let refused = driven.service.get("/v1/stream");
    assert_eq!((refused.status, &*refused.error_code()), (503, "too_many_streams"));
    // An event has over 40 KB, so the buffers are full after some of them.
    while driven.seconds < opened + 18 {
        driven.second();
    }
    let filled = driven.service.memory();
    while driven.seconds < opened + 28 {
        assert_eq!(driven.second()["streams"], STREAMS, "after {} s", driven.seconds);
        assert_eq!(driven.service.call("peek", "l0", "a", &json!({})).status, 200);
    }
    // If the events of these 10 s were queued, they would take 12 MiB.
    let grown = driven.service.memory().saturating_sub(filled) >> 20;
    assert!(grown < 6, "{grown} MiB more");
    // The system also ends such a connection, after 30 s of real time. This takes fewer.
    while driven.second()["streams"] != 1 {
        assert!(driven.seconds < opened + 60, "stuck readers keep their places");
    }
    let mut others: Vec<_> = (1..STREAMS).map(|_| Stream::open(&driven.service, "")).collect();
    assert_eq!(others[0].next_named("now").data["store"]["kind"], "memory");
    drop(unread);
}
