//! Tests the services for Envoy with a real Envoy.

mod documented;
mod ext_authz;
mod quotas;
mod rate_limits;
mod restart;
mod tls;

use sluicegate_testkit::servers::EnvoyServer;

use crate::support::{Client, Reply, Service};

const FREE: &str = "127.0.0.1:0";

/// Sends a request through the proxy.
fn ask(envoy: &EnvoyServer, path: &str, fields: &[(&str, &str)]) -> Reply {
    let mut client = Client::connect(envoy.address()).unwrap();
    send(&mut client, path, fields)
}

/// Sends a request through the proxy on a connection that stays open.
fn send(client: &mut Client, path: &str, fields: &[(&str, &str)]) -> Reply {
    let fields: String =
        fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    client.send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")).unwrap();
    client.reply().unwrap()
}

/// Returns the rate limit filter of the domain `edge`, with these settings too. Its patience is that
/// of a test.
fn rate_limit_filter(settings: &str) -> String {
    format!(
        r#"
- name: envoy.filters.http.ratelimit
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
    domain: edge
    enable_x_ratelimit_headers: DRAFT_VERSION_03
    enable_retry_after_header: true
    rate_limit_service:
      transport_api_version: V3
      grpc_service: {{envoy_grpc: {{cluster_name: sluicegate}}}}
    {settings}
"#
    )
}

/// Returns a route whose requests have the descriptor `user`, from the field `x-user`. Each item of
/// `hits` is one descriptor with these settings.
fn route_of_users(path: &str, hits: &[&str]) -> String {
    let action = "actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]";
    let line = |hits: &&str| {
        let comma = if hits.is_empty() { "" } else { ", " };
        format!("      - {{{action}{comma}{hits}}}\n")
    };
    let rate_limits: String = hits.iter().map(line).collect();
    format!(
        r#"
- match: {{prefix: {path}}}
  route: {{cluster: upstream}}
  typed_per_filter_config:
    envoy.filters.http.ratelimit:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
      rate_limits:
{rate_limits}"#
    )
}

/// The patience of a filter that waits for the service.
const PATIENT: &str = "timeout: 20s";

/// Starts a proxy whose rate limit filter has these settings, and whose requests have one descriptor.
fn proxy_of_users(service: &Service, settings: &str) -> EnvoyServer {
    EnvoyServer::calling(service.address_of("grpc"))
        .filters(&rate_limit_filter(settings))
        .routes(&route_of_users("/", &[""]))
        .start()
        .unwrap()
}
