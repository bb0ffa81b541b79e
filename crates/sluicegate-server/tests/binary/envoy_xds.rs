//! Tests `sluicegate envoy` with a control plane.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_testkit::wait::until;

use crate::control_plane::{ControlPlane, domain};
use crate::metrics::assert_promtool_passes;
use crate::support::{Client, Reply, Service, binary};

const FREE: &str = "127.0.0.1:0";

/// Starts the service as a client of a control plane, with its gRPC listener on `grpc`.
fn start(plane: SocketAddr, grpc: &str, more: &[(&str, &str)]) -> Service {
    let mut command = binary();
    let ports = ["--grpc", grpc, "--http", FREE, "--debug", FREE, "--metrics", FREE];
    command.arg("envoy").args(ports).envs(more.iter().copied()).envs([
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", plane.to_string().as_str()),
        ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "10ms"),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "50ms"),
    ]);
    Service::of(command)
}

/// Asks about a key over HTTP.
fn reply(service: &Service, key: &str) -> Reply {
    let request =
        json!({"domain": "shop", "descriptors": [{"entries": [{"key": key, "value": "x"}]}]});
    service.post("/json", request.to_string())
}

/// Asks about a key over HTTP. Returns the remaining requests.
fn ask(service: &Service, key: &str) -> Value {
    reply(service, key).json()["statuses"][0]["limitRemaining"].clone()
}

/// Returns metrics of the control plane: whether it is up, since when, and its applied and refused pushes.
fn metrics_of_plane(service: &Service) -> [String; 4] {
    let page = Client::connect(service.address_of("metrics")).unwrap().get("/metrics").unwrap();
    assert_promtool_passes(&page.body);
    let [applied, refused] =
        ["applied", "refused"].map(|it| format!("pushes_total{{outcome=\"{it}\"}}"));
    ["up", "changed_timestamp_seconds", &applied, &refused].map(|name| {
        let mut lines = page.body.lines();
        let found = lines
            .find_map(|it| it.strip_prefix("sluicegate_control_plane_")?.strip_prefix(name))
            .unwrap_or_else(|| panic!("no {name} in {}", page.body));
        found.trim().to_owned()
    })
}

fn debug(service: &Service, path: &str) -> String {
    Client::connect(service.address_of("debug")).unwrap().get(path).unwrap().body
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_limit_service_opens_with_the_first_good_push() {
    let mut plane = ControlPlane::start((Ipv4Addr::LOCALHOST, 0)).await;
    // Another process could take the port, but only in this moment.
    let free = TcpListener::bind(FREE).unwrap().local_addr().unwrap();
    let mut service = start(plane.address, &free.to_string(), &[]);
    let log = service.follow_its_log();
    let mut stream = plane.stream().await;
    stream.request().await;
    assert!(TcpStream::connect(free).is_err() && service.get("/healthcheck").status == 500);
    assert_eq!(reply(&service, "user").status, 503, "there are no rules yet");
    let refused = stream.push("1", vec![domain("", &[])]).await;
    assert!(refused.error_detail.is_some());
    assert!(TcpStream::connect(free).is_err() && service.get("/healthcheck").status == 500);
    stream.push("2", vec![domain("shop", &[("user", 5)])]).await;
    until("the listener", || {
        let seen = log.lock().unwrap().clone();
        if seen.contains(&format!("listening: grpc {free}\n")) { Ok(()) } else { Err(seen) }
    });
    assert!(TcpStream::connect(free).is_ok() && service.get("/healthcheck").status == 200);
    assert_eq!(ask(&service, "user"), json!(4));
    let line = "shop.user: unit=HOUR requests_per_unit=5, shadow_mode: false, quota_mode: false\n";
    assert_eq!(debug(&service, "/rlconfig"), line);
    // The control plane goes, and comes back with other rules.
    let address = plane.address;
    drop(stream);
    plane.stop().await;
    assert_eq!(ask(&service, "user"), json!(3));
    let mut plane = ControlPlane::start(address).await;
    let mut stream = plane.stream().await;
    stream.request().await;
    stream.push("1", vec![domain("shop", &[("user", 50), ("plan", 7)])]).await;
    assert_eq!((ask(&service, "user"), ask(&service, "plan")), (json!(47), json!(6)));
    let stats = debug(&service, "/stats");
    assert!(stats.contains("config_load_success 2\n") && stats.contains("config_load_error 1\n"));
    service.signal(Signal::INT);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_whether_the_control_plane_is_up_and_what_came_of_its_pushes() {
    let mut plane = ControlPlane::start((Ipv4Addr::LOCALHOST, 0)).await;
    let service = start(plane.address, FREE, &[]);
    let mut stream = plane.stream().await;
    stream.request().await;
    let until_up_is = |expected: &str| {
        until("the connection", || {
            let [up, since, applied, refused] = metrics_of_plane(&service);
            let since: f64 = since.parse().unwrap();
            if up == expected { Ok((since, [applied, refused])) } else { Err(up) }
        })
    };
    let (connected, pushes) = until_up_is("1");
    assert!(connected > 1_700_000_000.0, "{connected}");
    assert_eq!(pushes, ["0", "0"]);
    stream.push("1", vec![domain("shop", &[("user", 5)])]).await;
    stream.push("2", vec![domain("", &[])]).await;
    stream.push("3", vec![]).await;
    assert_eq!(until_up_is("1").1, ["2", "1"]);
    drop(stream);
    plane.stop().await;
    let (disconnected, pushes) = until_up_is("0");
    assert!(disconnected > connected, "{disconnected}");
    assert_eq!(pushes, ["2", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_must_start_does_not_wait_for_a_push() {
    let mut plane = ControlPlane::start((Ipv4Addr::LOCALHOST, 0)).await;
    let forced = [("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")];
    let service = start(plane.address, FREE, &forced);
    let mut stream = plane.stream().await;
    stream.request().await;
    assert!(TcpStream::connect(service.address_of("grpc")).is_ok());
    assert_eq!((service.get("/healthcheck").status, ask(&service, "user")), (200, Value::Null));
    assert_eq!(reply(&service, "user").status, 200, "everything passes without rules");
    stream.push("1", vec![domain("shop", &[("user", 5)])]).await;
    assert_eq!(ask(&service, "user"), json!(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_waits_for_a_push_can_be_stopped() {
    let mut plane = ControlPlane::start((Ipv4Addr::LOCALHOST, 0)).await;
    let mut service = start(plane.address, FREE, &[]);
    plane.stream().await.request().await;
    service.signal(Signal::INT);
    let (status, said) = service.wait();
    assert!(status.success() && !said.contains("listening: grpc"), "{status}: {said}");
}

#[test]
fn settings_of_a_control_plane_that_cannot_be_used_are_named() {
    let mut command = binary();
    command
        .arg("envoy")
        .envs([("CONFIG_TYPE", "GRPC_XDS_SOTW"), ("CONFIG_GRPC_XDS_SERVER_URL", "plane")]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("CONFIG_GRPC_XDS_SERVER_URL must be HOST:PORT"), "{said}");
}
