//! Tests clients that take more than their share.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sluicegate_testkit::proxy::{Direction, Fault, Proxy};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until;
use socket2::{Domain, Socket, Type};

use crate::support::{Client, File, Service};

const CHECK: &str = r#"{"limit":"demo","key":"a"}"#;

/// Writes a config with these bounds, and a limit that never refuses.
fn bounded(service: &str, more: &str) -> File {
    let limits = "limits: {demo: {policies: [\"token_bucket 1000000/s burst 1000000\"]}}";
    File::new("limits.yaml", &format!("service: {service}\n{more}\n{limits}\n"))
}

fn client(service: &Service) -> Client {
    Client::connect(service.address()).unwrap()
}

/// Returns the bytes of a check.
fn request(body: &str) -> String {
    let length = body.len();
    format!("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Regression test: 10,000 idle connections blocked the service for half a minute.
#[test]
fn connections_that_idle_are_closed_for_new_ones_the_longest_idle_first() {
    let file = bounded("{max_connections: 50}", "");
    let service = Service::start(&["--config", file.path()]);
    let mut busy = client(&service);
    let mut idle = Vec::new();
    for number in 0..500 {
        idle.push(client(&service));
        if number % 10 == 0 {
            // The busy client is never the one that has been idle longest.
            assert_eq!(busy.post("/v1/check", CHECK).unwrap().status, 200, "{number}");
            assert_eq!(service.get("/healthz").status, 200, "{number}");
        }
    }
    assert_eq!(service.get("/readyz").status, 200);
    let newest = idle.split_off(480);
    idle.into_iter().take(440).for_each(Client::wait_until_closed);
    for mut client in newest {
        assert_eq!(client.get("/healthz").unwrap().status, 200);
    }
    assert!(service.metric("sluicegate_connections{listener=\"http\"}") <= 50);
    let closed =
        service.metric("sluicegate_connections_closed_total{listener=\"http\",reason=\"full\"}");
    assert!(closed >= 450, "{closed}");
}

/// Sending parts of a request at intervals doesn't make a connection look busy.
#[test]
fn clients_that_send_half_a_request_are_closed_for_others() {
    let file = bounded("{max_connections: 20}", "");
    let service = Service::start(&["--config", file.path()]);
    let head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n";
    let mut slow: Vec<_> = (0..20).map(|_| client(&service)).collect();
    for (number, client) in slow.iter_mut().enumerate() {
        client.send(head).unwrap();
        if number % 2 == 0 {
            client.send("Expect: 100-continue\r\n\r\n").unwrap();
            assert_eq!(client.reply().unwrap().status, 100);
            client.send("{").unwrap();
        }
    }
    let mut others: Vec<_> = (0..20).map(|_| client(&service)).collect();
    for _ in 0..3 {
        for client in &mut others {
            assert_eq!(client.post("/v1/check", CHECK).unwrap().status, 200);
        }
    }
    slow.into_iter().for_each(Client::wait_until_closed);
}

#[test]
fn there_are_fewer_connections_than_files_that_the_system_allows() {
    let mut service = Service::start_with_files(64, &[]);
    let log = service.follow_its_log();
    let mut idle: Vec<_> = (0..300).map(|_| client(&service)).collect();
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(service.post("/v1/check", CHECK).status, 200);
    assert!(service.metric("sluicegate_connections{listener=\"http\"}") <= 32);
    assert_eq!(idle.pop().unwrap().get("/healthz").unwrap().status, 200);
    let log = log.lock().unwrap().clone();
    assert!(log.contains("at most 32 connections instead of 10000"), "{log}");
    assert!(!log.contains("can't accept"), "{log}");
}

#[test]
fn an_address_has_its_share_of_connections_and_a_trusted_proxy_has_no_bound() {
    let http = "http: {client_address: x-forwarded-for, trusted_proxies: [127.0.0.2]}";
    let file = bounded("{max_connections_per_address: 3}", http);
    let service = Service::start(&["--config", file.path()]);
    let from = |address: [u8; 4]| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&service.address().into()).unwrap();
        Client::on(TcpStream::from(socket)).unwrap()
    };
    let mut proxy: Vec<_> = (0..20).map(|_| from([127, 0, 0, 2])).collect();
    let mut other: Vec<_> = (0..3).map(|_| from([127, 0, 0, 3])).collect();
    from([127, 0, 0, 3]).wait_until_closed();
    for client in proxy.iter_mut().chain(&mut other) {
        assert_eq!(client.get("/healthz").unwrap().status, 200);
    }
    assert_eq!(service.get("/healthz").status, 200, "another address");
    drop(other.pop());
    until("there is room", || from([127, 0, 0, 3]).get("/healthz").map_err(|error| error.kind()));
    let closed =
        service.metric("sluicegate_connections_closed_total{listener=\"http\",reason=\"address\"}");
    assert!(closed >= 1, "{closed}");
}

#[test]
fn health_has_a_listener_of_its_own_where_it_is_wanted() {
    let service = Service::start(&["--health", "127.0.0.1:0"]);
    let mut health = Client::connect(service.health()).unwrap();
    assert_eq!(health.get("/healthz").unwrap().status, 200);
    assert_eq!(health.get("/readyz").unwrap().status, 200);
    for path in ["/", "/metrics", "/v1/limits", "/v1/recent"] {
        assert_eq!(health.get(path).unwrap().status, 404, "{path}");
    }
    assert_eq!(health.post("/v1/check", CHECK).unwrap().status, 404);
    assert_eq!(service.get("/healthz").status, 200, "and the first listener has it too");
}

/// A request is in progress on every connection, so none is closed for another one.
#[test]
fn health_is_answered_where_every_connection_is_taken() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let limits = "limits: {demo: {policies: [gcra 1/h burst 9], deadline: 60s}}";
    let text = format!("store: \"{}\"\nservice: {{max_connections: 2}}\n{limits}", proxy.url());
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path(), "--health", "127.0.0.1:0"]);
    let mut asking: Vec<_> = (0..2).map(|_| client(&service)).collect();
    assert_eq!(asking[0].post("/v1/check", CHECK).unwrap().status, 200);
    proxy.set(Direction::Replies, Fault::Hold);
    for (index, client) in asking.iter_mut().enumerate() {
        client.send(&request(&CHECK.replace("\"a\"", &format!("\"{index}\"")))).unwrap();
    }
    // Both calls have reached the server and none is answered, because at most two run at the same
    // time. So no connection waits for its client.
    until("each client's key is counted", || {
        let keys = server.cli(&["KEYS", "*demo*"]).unwrap().lines().count();
        if keys == 3 { Ok(()) } else { Err(keys) }
    });
    // A third connection gets no answer, whether or not it is accepted.
    let mut other = service.connect();
    other.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    other.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(
        other.read(&mut [0; 1]).is_ok_and(|read| read == 0) || other.peek(&mut [0; 1]).is_err()
    );
    let health = || Client::connect(service.health()).unwrap();
    assert_eq!(health().get("/healthz").unwrap().status, 200);
    // The store has answered once, so only the body says that it hangs now.
    assert_eq!(health().get("/readyz").unwrap().status, 200);
    proxy.heal();
    for client in &mut asking {
        assert_eq!(client.reply().unwrap().status, 200);
    }
}

/// A server that hangs, called by the maximum number of requests.
#[test]
fn requests_beyond_those_that_are_decided_wait_for_their_turn_and_health_does_not() {
    let mut server = Server::start().unwrap();
    let limits = "limits: {demo: {policies: [gcra 1/s burst 9], deadline: 5s}}";
    let text = format!("store: \"{}\"\nservice: {{max_requests: 2}}\n{limits}", server.url());
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path(), "--health", "127.0.0.1:0"]);
    assert_eq!(service.post("/v1/check", CHECK).status, 200);
    server.pause().unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| client(&service)).collect();
    for client in &mut clients {
        client.send(&request(CHECK)).unwrap();
    }
    let mut codes: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            assert_eq!(service.get("/healthz").status, 200);
            let mut health = Client::connect(service.health()).unwrap();
            assert_eq!(health.get("/healthz").unwrap().status, 200);
            client.reply().unwrap().error_code()
        })
        .collect();
    codes.sort();
    // Two requests reached the store and failed.
    let overloaded = codes.iter().filter(|code| *code == "overloaded").count();
    assert_eq!(overloaded, 4, "{codes:?}");
    server.resume().unwrap();
}
