//! The rate limit filter.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_testkit::servers::EnvoyServer;
use sluicegate_testkit::wait::until;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::{FREE, PATIENT, ask, proxy_of_users, rate_limit_filter, route_of_users};
use crate::envoy::start;
use crate::support::{File, Service};

/// Starts `serve` with a policy for each user.
fn native(policy: &str) -> Service {
    let text = format!(
        "limits: {{tenant: {{policies: [{policy}]}}}}\n\
         envoy: {{domains: {{edge: [{{match: {{user: \"*\"}}, limit: tenant}}]}}}}"
    );
    let file = File::new("limits.yaml", &text);
    Service::start(&["--config", file.path(), "--grpc", FREE])
}

/// Starts `sluicegate envoy` with five requests for each user in a year.
fn incumbent() -> (Service, TempDir) {
    incumbent_with("rate_limit: {unit: year, requests_per_unit: 5}")
}

/// Starts `sluicegate envoy` with one rule for each user.
fn incumbent_with(settings: &str) -> (Service, TempDir) {
    let temp = tempfile::tempdir().unwrap();
    let text = format!("domain: edge\ndescriptors:\n  - {{key: user, {settings}}}\n");
    std::fs::write(temp.path().join("edge.yaml"), text).unwrap();
    (start(&[], &["--config", temp.path().to_str().unwrap(), "--admin", FREE]), temp)
}

/// Starts a proxy with routes for each kind of hits.
fn proxy_of_hits(service: &Service) -> EnvoyServer {
    let of_answer = r#"apply_on_stream_done: true, hits_addend: {format: "%RESP(x-used)%"}"#;
    let routes = [
        route_of_users("/field", &[r#"hits_addend: {format: "%REQ(x-cost)%"}"#]),
        route_of_users("/number", &["hits_addend: {number: 2}"]),
        route_of_users("/look", &["hits_addend: {number: 0}"]),
        route_of_users("/answer", &["hits_addend: {number: 0}", of_answer]),
    ];
    EnvoyServer::calling(service.address_of("grpc"))
        .filters(&rate_limit_filter(PATIENT))
        .routes(&routes.concat())
        .start()
        .unwrap()
}

/// Asks for a user. Returns the status and the remaining requests.
fn remaining(envoy: &EnvoyServer, path: &str, user: &str, cost: &str) -> (u16, Option<u64>) {
    let reply = ask(envoy, path, &[("x-user", user), ("x-cost", cost)]);
    (reply.status, reply.field("x-ratelimit-remaining").map(|text| text.parse().unwrap()))
}

/// Asks a route whose hits are in the answer, and waits until the service has counted them.
fn ask_with_hits_of_answer(envoy: &EnvoyServer, cost: &str) -> (u16, Option<u64>) {
    let calls = || envoy.statistic("cluster.sluicegate.upstream_rq_completed").unwrap();
    let before = calls();
    let answer = remaining(envoy, "/answer", "carol", cost);
    until("the call after the answer", || match calls() {
        count if count == before + 2 => Ok(()),
        other => Err(other),
    });
    answer
}

#[test]
fn five_requests_of_each_user_pass_and_the_next_is_told_when_to_return() {
    let (envoys, _files) = incumbent();
    for (service, shown) in
        [(native("fixed_window 5/h"), r#"5, 5;w=3600;name="tenant""#), (envoys, "5, 5;w=31536000")]
    {
        let envoy = proxy_of_users(&service, PATIENT);
        for user in ["alice", "bob"] {
            for left in ["4", "3", "2", "1", "0"] {
                let reply = ask(&envoy, "/", &[("x-user", user)]);
                assert_eq!((reply.status, &*reply.body), (200, "upstream"), "{reply:?}");
                assert_eq!(reply.field("x-ratelimit-remaining"), Some(left), "{reply:?}");
                assert_eq!(reply.field("x-ratelimit-limit"), Some(shown), "{reply:?}");
                assert_eq!(reply.field("retry-after"), None, "{reply:?}");
            }
        }
        let denied = ask(&envoy, "/", &[("x-user", "alice")]);
        assert_eq!((denied.status, &*denied.body), (429, ""), "{denied:?}");
        assert_eq!(denied.field("x-envoy-ratelimited"), Some("true"));
        assert_eq!(denied.field("x-ratelimit-limit"), Some(shown), "{denied:?}");
        let wait = denied.field("retry-after").unwrap();
        assert_eq!(denied.field("x-ratelimit-reset"), Some(wait), "{denied:?}");
        assert!((1..=31_536_000).contains(&wait.parse::<u32>().unwrap()), "{denied:?}");
        // Without the field there is no descriptor.
        let other = ask(&envoy, "/", &[]);
        assert_eq!((other.status, other.field("x-ratelimit-limit")), (200, None), "{other:?}");
    }
}

#[test]
fn hits_come_from_a_field_or_a_number() {
    let (envoys, _files) = incumbent();
    // Envoy's service counts what it denies.
    for (service, left) in [(native("fixed_window 5/h"), 1), (envoys, 0)] {
        let envoy = proxy_of_hits(&service);
        assert_eq!(remaining(&envoy, "/number", "alice", "9"), (200, Some(3)));
        assert_eq!(remaining(&envoy, "/look", "alice", "9"), (200, Some(3)));
        assert_eq!(remaining(&envoy, "/field", "bob", "4"), (200, Some(1)));
        assert_eq!(remaining(&envoy, "/field", "bob", "2"), (429, Some(left)));
        // Envoy leaves out the descriptor.
        for no_number in ["many", "-1", ""] {
            assert_eq!(remaining(&envoy, "/field", "bob", no_number), (200, None), "{no_number}");
        }
    }
}

#[test]
fn hits_of_an_answer_are_counted_after_it() {
    let (envoys, _files) = incumbent();
    for (service, is_counted) in [
        (native("fixed_window 5/h"), false),
        (native("fixed_window 5/h count_denied"), true),
        (envoys, true),
    ] {
        let envoy = proxy_of_hits(&service);
        assert_eq!(ask_with_hits_of_answer(&envoy, "3"), (200, Some(5)));
        assert_eq!(remaining(&envoy, "/look", "carol", "9"), (200, Some(2)));
        // More than remains. Envoy ignores the answer.
        assert_eq!(ask_with_hits_of_answer(&envoy, "3"), (200, Some(2)));
        let then = if is_counted { (429, Some(0)) } else { (200, Some(0)) };
        assert_eq!(remaining(&envoy, "/number", "carol", "9"), then);
    }
}

#[test]
fn forced_hits_of_an_answer_are_charged_past_any_limit() {
    let block = "x_sluicegate: {policies: [token_bucket 1/h burst 5], charge: forced}";
    let (service, _files) = incumbent_with(block);
    let envoy = proxy_of_hits(&service);
    assert_eq!(ask_with_hits_of_answer(&envoy, "3"), (200, Some(5)));
    assert_eq!(ask_with_hits_of_answer(&envoy, "9"), (200, Some(2)));
    // The call before the answer is decided by the limit, so the upstream isn't asked.
    let denied = ask(&envoy, "/answer", &[("x-user", "carol"), ("x-cost", "1")]);
    assert_eq!((denied.status, &*denied.body), (429, ""), "{denied:?}");
    // 7 units of debt and one more unit, an hour each.
    let wait: u32 = denied.field("retry-after").unwrap().parse().unwrap();
    assert!((7 * 3_600..=8 * 3_600).contains(&wait), "{denied:?}");
    assert_eq!(remaining(&envoy, "/look", "dave", "1"), (200, Some(5)));
}

/// Returns a cluster of one address.
fn cluster(name: &str, address: SocketAddr, options: &str) -> String {
    let (host, port) = (address.ip(), address.port());
    format!(
        r#"
- name: {name}
  type: STATIC
  connect_timeout: 20s
  {options}
  load_assignment:
    cluster_name: {name}
    endpoints:
    - lb_endpoints:
      - {{endpoint: {{address: {{socket_address: {{address: {host}, port_value: {port}}}}}}}}}"#
    )
}

#[test]
fn held_hits_are_settled_by_a_filter_of_the_proxy() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/envoy.md");
    const HTTP_2: &str = r#"typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {http2_protocol_options: {}}"#;
    let page = std::fs::read_to_string(PAGE).unwrap();
    let documented = page.split("```lua\n").nth(1).unwrap().split("```").next().unwrap();
    let code: String = documented.lines().map(|line| format!("        {line}\n")).collect();
    let lua = format!(
        r#"
- name: envoy.filters.http.lua
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
    default_source_code:
      inline_string: |
{code}"#
    );
    let block = "x_sluicegate: {policies: [fixed_window 10/h], hold: 1h}";
    let (service, _files) = incumbent_with(block);
    let clusters = [
        cluster("sluicegate", service.address_of("grpc"), HTTP_2),
        cluster("sluicegate-admin", service.address_of("admin"), ""),
    ];
    let routes = [
        route_of_users("/look", &["hits_addend: {number: 0}"]),
        route_of_users("/estimate", &["hits_addend: {number: 6}"]),
    ];
    let envoy = EnvoyServer::calling(service.address_of("grpc"))
        .filters(&format!("{lua}{}", rate_limit_filter(PATIENT)))
        .routes(&routes.concat())
        .clusters(&clusters.concat())
        .start()
        .unwrap();
    // The estimate is 6, and the answer says 2.
    let reply = ask(&envoy, "/estimate", &[("x-user", "alice"), ("x-cost", "2")]);
    assert_eq!((reply.status, reply.field("x-ratelimit-remaining")), (200, Some("4")), "{reply:?}");
    until("the settled hits", || match remaining(&envoy, "/look", "alice", "9") {
        (200, Some(8)) => Ok(()),
        other => Err(other),
    });
}

#[test]
fn without_the_service_the_filter_decides() {
    let service = native("fixed_window 5/h");
    let open = proxy_of_users(&service, PATIENT);
    let closed = proxy_of_users(&service, &format!("{PATIENT}\n    failure_mode_deny: true"));
    let both = || [&open, &closed].map(|envoy| ask(envoy, "/", &[("x-user", "alice")]).status);
    assert_eq!(both(), [200, 200]);
    drop(service);
    assert_eq!(both(), [200, 500]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeout_of_the_filter_is_the_deadline_of_the_call() {
    let listener = TcpListener::bind(FREE).await.unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut calls = h2::server::handshake(stream).await.unwrap();
        let (call, _answer) = calls.accept().await.unwrap().unwrap();
        (call.uri().path().to_owned(), call.headers().get("grpc-timeout").cloned())
    });
    let envoy = EnvoyServer::calling(address)
        .filters(&rate_limit_filter("timeout: 0.3s\n    failure_mode_deny: true"))
        .routes(&route_of_users("/", &[""]))
        .start()
        .unwrap();
    let asked = tokio::task::spawn_blocking(move || ask(&envoy, "/", &[("x-user", "alice")]));
    let (path, timeout) = arrived.await.unwrap();
    assert_eq!(path, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    assert_eq!(timeout.unwrap(), "300m");
    let reply = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap().unwrap();
    assert_eq!(reply.status, 500);
}
