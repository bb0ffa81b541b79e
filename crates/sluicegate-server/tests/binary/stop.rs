//! Stopping in order.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use sluicegate_testkit::wait::until;

use crate::support::{Reply, Service};

/// A request whose head has arrived and whose body has not.
fn half_a_request(service: &Service, body: &str) -> TcpStream {
    let mut stream = service.connect();
    write!(
        stream,
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    // The service asks for the body: it has begun to answer.
    let mut continues = [0; 25];
    stream.read_exact(&mut continues).unwrap();
    assert_eq!(&continues, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// Until nobody listens any more: the signal has arrived.
fn wait_until_closed(service: &Service) {
    until("nobody listens", || match TcpStream::connect(service.address()) {
        Ok(stream) => Err(stream),
        Err(_) => Ok(()),
    });
}

#[test]
fn a_request_in_flight_is_finished_at_sigterm_and_sigint() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut service = Service::start(&["--shutdown-timeout", "60s"]);
        let body = r#"{"limit":"demo","key":"a"}"#;
        let mut stream = half_a_request(&service, body);
        let idle = service.connect();
        service.signal(signal);
        wait_until_closed(&service);
        stream.write_all(body.as_bytes()).unwrap();
        let reply = Reply::read(&mut stream);
        assert_eq!((reply.status, reply.json()["allowed"].as_bool()), (200, Some(true)));
        let (status, stderr) = service.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
        drop(idle);
    }
}

#[test]
fn a_second_signal_waits_for_nobody() {
    let mut service = Service::start(&["--shutdown-timeout", "60s"]);
    let _stream = half_a_request(&service, "{}");
    service.signal(Signal::TERM);
    wait_until_closed(&service);
    service.signal(Signal::INT);
    let (status, stderr) = service.wait();
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("a second signal"), "{stderr}");
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_service_up() {
    let mut service = Service::start(&["--shutdown-timeout", "50ms"]);
    let _stream = half_a_request(&service, "{}");
    service.signal(Signal::TERM);
    let (status, stderr) = service.wait();
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("requests in flight"), "{stderr}");
}
