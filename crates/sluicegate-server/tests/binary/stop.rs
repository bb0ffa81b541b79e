//! Tests a graceful stop.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;
use sluicegate_testkit::servers::shared_each;
use sluicegate_testkit::wait::until;

use crate::support::{Client, File, Reply, Service, own_store, sluicegate};

/// Sends a request's head without its body.
fn half_a_request(service: &Service, body: &str) -> TcpStream {
    let mut stream = service.connect();
    write!(
        stream,
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    // The service asks for the body, so the request is in progress.
    let mut continues = [0; 25];
    stream.read_exact(&mut continues).unwrap();
    assert_eq!(&continues, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// Waits until the service no longer listens: the signal has arrived.
fn wait_until_closed(service: &Service) {
    until("nobody listens", || match TcpStream::connect(service.address()) {
        Ok(stream) => Err(stream),
        Err(_) => Ok(()),
    });
}

#[test]
fn a_request_in_flight_is_finished_at_sigterm_and_sigint() {
    for signal in [Signal::TERM, Signal::INT] {
        let args = ["--admin-token", "s3cret", "--drain", "0s", "--shutdown-timeout", "60s"];
        let mut service = Service::start(&args);
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
    let mut service = Service::start(&["--drain", "0s", "--shutdown-timeout", "60s"]);
    let _stream = half_a_request(&service, "{}");
    service.signal(Signal::TERM);
    wait_until_closed(&service);
    service.signal(Signal::INT);
    let (status, stderr) = service.wait();
    assert_eq!(status.code(), Some(130));
    assert!(stderr.contains("a second signal"), "{stderr}");
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_service_up() {
    let mut service = Service::start(&["--drain", "0s", "--shutdown-timeout", "50ms"]);
    let _stream = half_a_request(&service, "{}");
    service.signal(Signal::TERM);
    let (status, stderr) = service.wait();
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("requests in flight"), "{stderr}");
}

const CHECK: &str = r#"{"limit":"demo","key":"a"}"#;

#[test]
fn while_it_drains_readyz_fails_and_an_answer_is_the_last_of_its_connection() {
    let mut service = Service::start(&["--drain", "60s", "--health", "127.0.0.1:0"]);
    let mut known = Client::connect(service.address()).unwrap();
    let mut health = Client::connect(service.health()).unwrap();
    assert_eq!(known.get("/readyz").unwrap().status, 200);
    let kept = known.post("/v1/peek", CHECK).unwrap();
    assert_eq!((kept.status, kept.field("connection")), (200, None));
    service.signal(Signal::TERM);
    let refused = until("it isn't ready", || {
        let reply = service.get("/readyz");
        if reply.status == 503 { Ok(reply) } else { Err(reply) }
    });
    assert_eq!(refused.error_code(), "draining");
    assert_eq!(health.get("/readyz").unwrap().status, 503);
    let asked = sluicegate(&["health", "--server", &format!("http://{}", service.address())]);
    assert_eq!(asked.status, 1);
    assert!(asked.stderr.contains("isn't ready: the service is about to stop"), "{asked:?}");
    assert_eq!(service.get("/healthz").status, 200, "it is up");
    assert_eq!(Client::connect(service.health()).unwrap().get("/healthz").unwrap().status, 200);
    for mut client in [known, Client::connect(service.address()).unwrap()] {
        let last = client.post("/v1/peek", CHECK).unwrap();
        assert_eq!((last.status, last.field("connection")), (200, Some("close")));
        client.wait_until_closed();
    }
    service.signal(Signal::TERM);
    let (status, stderr) = service.wait();
    assert_eq!(status.code(), Some(143));
    assert!(stderr.contains("a second signal"), "{stderr}");
}

/// Covers accepted connections and some that were not accepted yet.
#[test]
fn what_was_sent_before_a_signal_is_answered_even_if_it_was_not_read() {
    for drain in ["0s", "50ms"] {
        let mut service = Service::start(&["--admin-token", "s3cret", "--drain", drain]);
        let connect = || Client::connect(service.address()).unwrap();
        let mut clients: Vec<_> = (0..10).map(|_| connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/healthz").unwrap().status, 200);
        }
        service.signal(Signal::STOP);
        clients.extend((0..10).map(|_| connect()));
        for client in &mut clients {
            client.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        }
        service.signal(Signal::TERM);
        service.signal(Signal::CONT);
        for client in &mut clients {
            assert_eq!(client.reply().unwrap().status, 200, "drain {drain}");
        }
        let (status, stderr) = service.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    }
}

/// Regression test: the units of a process that was stopped stayed charged until its leases ended.
#[test]
fn another_process_gets_the_leased_units_of_a_stopped_one_at_once() {
    const BURST: u64 = 10_000;
    for server in shared_each().unwrap() {
        let limits = format!(
            "limits: {{api: {{policies: [\"token_bucket 0/s burst {BURST}\"], \
             leases: {{most: 1000, lasts: 50s}}, deadline: 5s}}}}"
        );
        let text = own_store(server.url()) + &limits;
        let file = File::new("limits.yaml", &text);
        let mut service = Service::start(&["--config", file.path(), "--drain", "0s"]);
        let other = Service::start(&["--config", file.path()]);
        let body = r#"{"limit":"api","key":"a"}"#;
        let left =
            || other.post("/v1/peek", body).json()["policies"][0]["remaining"].as_u64().unwrap();
        let mut client = Client::connect(service.address()).unwrap();
        let mut spent = 0;
        until("units are leased", || {
            spent += 1;
            assert_eq!(client.post("/v1/check", body).unwrap().status, 200);
            let held = BURST - spent - left();
            if held > 10 { Ok(()) } else { Err(held) }
        });
        assert!(service.metric("sluicegate_leased_units") > 0);
        assert_eq!(other.metric("sluicegate_leased_units"), 0);
        drop(client);
        service.signal(Signal::TERM);
        let (status, stderr) = service.wait();
        assert_eq!((status.code(), left()), (Some(0), BURST - spent), "{stderr}");
    }
}

/// A request counts as lost if the client sent it on a connection that it saw as open, and got no
/// complete answer. A failed connection attempt is retried.
///
/// Regression test: each restart lost about one request per connection.
#[test]
fn no_request_of_busy_connections_is_lost_when_the_service_restarts() {
    const CONNECTIONS: usize = 32;
    let soak = std::env::var("SLUICEGATE_SOAK").map_or(1, |times| times.parse().unwrap());
    let restarts = 2 * soak;
    let args = ["--admin-token", "s3cret", "--drain", "150ms"];
    let mut service = Service::start(&args);
    let address = service.address();
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = || {
        let mut lost = Vec::new();
        let mut client = None;
        while !stop.load(Ordering::Relaxed) {
            let mut connected = match client.take() {
                Some(connected) => connected,
                None => match Client::connect(address) {
                    Ok(connected) => connected,
                    Err(_) => {
                        std::thread::yield_now();
                        continue;
                    }
                },
            };
            match connected.post("/v1/peek", CHECK) {
                Ok(reply) => {
                    assert_eq!(reply.status, 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                    if reply.field("connection") != Some("close") {
                        client = Some(connected);
                    }
                }
                Err(error) => lost.push(error.to_string()),
            }
        }
        lost
    };
    let more_are_answered = || {
        let before = answered.load(Ordering::Relaxed);
        until("more are answered", || match answered.load(Ordering::Relaxed) - before {
            more if more > 4 * CONNECTIONS => Ok(()),
            more => Err(more),
        });
    };
    let lost: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        for _ in 0..restarts {
            more_are_answered();
            service.signal(Signal::TERM);
            let (status, stderr) = service.wait();
            assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
            service = Service::start_on(&address.to_string(), &args);
        }
        more_are_answered();
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let answered = answered.into_inner();
    assert!(lost.is_empty(), "{} of {answered} lost in {restarts} restarts: {lost:?}", lost.len());
}
