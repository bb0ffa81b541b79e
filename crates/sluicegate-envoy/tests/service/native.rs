//! Descriptors of a registry's own limits, and authorization by them.

use std::collections::HashMap;

use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::service::protos::authorization_client::AuthorizationClient;
use sluicegate_envoy::service::protos::check_response::HttpResponse;
use sluicegate_envoy::service::protos::rate_limit_descriptor::{Entry, RateLimitOverride};
use sluicegate_envoy::service::protos::rate_limit_response::{Code, DescriptorStatus};
use sluicegate_envoy::service::protos::rate_limit_service_client::RateLimitServiceClient;
use sluicegate_envoy::service::protos::{
    Address, AttributeContext, CheckRequest, CheckResponse, HeaderValueOption, RateLimitDescriptor,
    RateLimitRequest, RateLimitResponse, SocketAddress, attribute_context,
};
use sluicegate_envoy::service::{NativeLimits, Unguarded, native_routes};
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;

use crate::recorded::NOW;
use crate::running::serve_routes;

const CONFIG: &str = r#"
limits:
  gold: {policies: ["token_bucket 1/s burst 3"]}
  minute: {policies: ["fixed_window 2/min aligned"]}
  by_address: {key: ip, policies: ["gcra 1/min burst 2"], block: [192.0.2.9]}
  by_tenant: {key: "header:x-tenant", missing_key: refuse, policies: ["gcra 1/min"]}
  skipping: {key: "header:x-tenant", missing_key: skip, policies: ["gcra 1/min"]}
envoy:
  domains:
    unfit:
      - {match: {shared: "*"}, limit: gold}
      - {match: {address: "*"}, limit: by_address}
      - {match: {refused: "*"}, limit: by_tenant}
      - {match: {skipped: "*"}, limit: skipping}
    edge:
      - {match: {plan: gold, user: "*"}, limit: gold}
      - {match: {user: "*"}, limit: minute, key: "u-{user}"}
      - {match: {name: 1}, limit: minute, key: everybody}
    free: {refunds: true, descriptors: [{match: {user: "*"}, limit: gold}]}
"#;

struct Native {
    channel: Channel,
    registry: Registry,
    clock: Arc<ManualClock>,
}

impl Native {
    async fn start() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros_clamped(NOW)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let config = Config::parse(CONFIG, "limits.yaml").expect("it is valid");
        let registry = Registry::builder(store).config(&config).build();
        let routed =
            native_routes(NativeLimits::new(registry.clone()), Unguarded).await.expect("valid");
        Self { channel: serve_routes(routed.routes).await, registry, clock }
    }

    async fn limit(&self, request: RateLimitRequest) -> Result<RateLimitResponse, tonic::Status> {
        let mut client = RateLimitServiceClient::new(self.channel.clone());
        Ok(client.should_rate_limit(request).await?.into_inner())
    }

    async fn check(
        &self,
        settings: &[(&str, &str)],
        peer: &str,
        headers: &[(&str, &str)],
    ) -> Result<CheckResponse, tonic::Status> {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let own = |pairs: &[(&str, &str)]| pairs.iter().map(own).collect::<HashMap<_, _>>();
        let socket = SocketAddress { address: peer.to_owned() };
        let source = attribute_context::Peer {
            address: Some(Address { socket_address: Some(socket) }),
            ..Default::default()
        };
        let http = attribute_context::HttpRequest {
            method: "GET".to_owned(),
            path: "/cart?item=7".to_owned(),
            host: "shop.example".to_owned(),
            headers: own(headers),
            ..Default::default()
        };
        let attributes = AttributeContext {
            source: Some(source),
            request: Some(attribute_context::Request { http: Some(http) }),
            context_extensions: own(settings),
        };
        let mut client = AuthorizationClient::new(self.channel.clone());
        Ok(client.check(CheckRequest { attributes: Some(attributes) }).await?.into_inner())
    }
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry =
        |&(key, value): &(&str, &str)| Entry { key: key.to_owned(), value: value.to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

fn request(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }
}

fn shown(status: &DescriptorStatus) -> (bool, u32, i64, u32, i32) {
    let limit = status.current_limit.as_ref();
    (
        status.code == i32::from(Code::Ok),
        status.limit_remaining,
        status.duration_until_reset.as_ref().map_or(-1, |reset| reset.seconds),
        limit.map_or(0, |limit| limit.requests_per_unit),
        limit.map_or(-1, |limit| limit.unit),
    )
}

#[tokio::test]
async fn a_descriptor_asks_the_limit_of_the_first_line_that_matches() {
    let native = Native::start().await;
    let gold = || descriptor(&[("user", "alice"), ("plan", "gold")]);
    let user = || descriptor(&[("user", "alice")]);
    let answer = native.limit(request("edge", vec![gold(), user(), descriptor(&[("x", "y")])]));
    let answer = answer.await.unwrap();
    assert_eq!(answer.overall_code, i32::from(Code::Ok));
    // The window is a minute; a bucket has no unit.
    assert_eq!(shown(&answer.statuses[0]), (true, 2, 1, 3, 0));
    let (is_ok, remaining, _, most, unit) = shown(&answer.statuses[1]);
    assert_eq!((is_ok, remaining, most, unit), (true, 1, 2, 2));
    assert_eq!(shown(&answer.statuses[2]), (true, 0, -1, 0, -1));
    assert_eq!(native.registry.gate("gold").peek("alice").now().unwrap().remaining(), Some(2));
    assert_eq!(native.registry.gate("minute").peek("u-alice").now().unwrap().remaining(), Some(1));
    // One descriptor twice counts twice, in order.
    let answer = native.limit(request("edge", vec![user(), user()])).await.unwrap();
    assert_eq!(answer.overall_code, i32::from(Code::OverLimit));
    assert!(shown(&answer.statuses[0]).0 && !shown(&answer.statuses[1]).0);
    // Envoy's `Retry-After` suffices.
    let wait = shown(&answer.statuses[1]).2;
    native.clock.advance(Duration::from_secs(u64::try_from(wait).unwrap()));
    let answer = native.limit(request("edge", vec![user()])).await.unwrap();
    assert_eq!(answer.overall_code, i32::from(Code::Ok));
    let answer = native.limit(request("elsewhere", vec![user()])).await.unwrap();
    assert_eq!(shown(&answer.statuses[0]), (true, 0, -1, 0, -1));
}

#[tokio::test]
async fn hits_of_zero_look_negative_ones_need_a_right_and_numbers_may_come_with_the_request() {
    let native = Native::start().await;
    let user = || descriptor(&[("user", "bob")]);
    let with = |hits, is_negative_hits| {
        vec![RateLimitDescriptor { hits_addend: Some(hits), is_negative_hits, ..user() }]
    };
    let remaining = async |domain: &str, descriptors| {
        let answer = native.limit(request(domain, descriptors)).await?;
        Ok::<_, tonic::Status>(answer.statuses[0].limit_remaining)
    };
    assert_eq!(remaining("free", with(2, false)).await.unwrap(), 1);
    assert_eq!(remaining("free", with(0, false)).await.unwrap(), 1);
    assert_eq!(remaining("free", with(1, true)).await.unwrap(), 2);
    assert_eq!(remaining("free", with(u64::MAX, true)).await.unwrap(), 3, "at most what was used");
    let refused = remaining("edge", with(1, true)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert!(refused.message().contains("`refunds: true`"), "{}", refused.message());
    let own = RateLimitOverride { requests_per_unit: 100, unit: 3 };
    let own = vec![RateLimitDescriptor { limit: Some(own), ..user() }];
    assert_eq!(remaining("edge", own).await.unwrap(), 99);
    let many = vec![user(); 129];
    let refused = native.limit(request("edge", many)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let answer = native.limit(request("edge", vec![user(); 64])).await.unwrap();
    assert_eq!(answer.statuses.iter().filter(|it| it.code == i32::from(Code::Ok)).count(), 2);
}

/// Regression test: an empty value made the call fail, and Envoy lets failed calls pass.
#[tokio::test]
async fn keys_that_do_not_fit_count_as_missing() {
    let native = Native::start().await;
    let ask = async |key: &str, value: &str| {
        let answer = native.limit(request("unfit", vec![descriptor(&[(key, value)])])).await;
        let status = answer.unwrap().statuses.remove(0);
        (status.code == i32::from(Code::Ok), status.limit_remaining)
    };
    // They share one key.
    assert_eq!(ask("shared", "").await, (true, 2));
    assert_eq!(ask("shared", "").await, (true, 1));
    assert_eq!(ask("shared", "alice").await, (true, 2));
    assert_eq!(ask("address", "nobody").await, (true, 1));
    assert_eq!(ask("address", "").await, (true, 0));
    assert_eq!(ask("address", "nobody else").await, (false, 0));
    assert_eq!(ask("address", "192.0.2.1").await, (true, 1));
    assert_eq!(ask("refused", "").await, (false, 0));
    assert_eq!(ask("refused", "acme").await, (true, 0));
    for _ in 0..3 {
        assert_eq!(ask("skipped", "").await, (true, 0));
    }
}

fn field<'a>(fields: &'a [HeaderValueOption], name: &str) -> Option<&'a str> {
    let found = fields.iter().find_map(|it| it.header.as_ref().filter(|it| it.key == name))?;
    // Envoy ignores `raw_value`.
    assert!(found.raw_value.is_empty(), "{found:?}");
    Some(&found.value)
}

fn status_of(answer: &CheckResponse) -> i32 {
    match &answer.http_response {
        Some(HttpResponse::DeniedResponse(denied)) => {
            denied.status.as_ref().map_or(0, |it| it.code)
        }
        Some(HttpResponse::OkResponse(_)) => 200,
        None => 0,
    }
}

#[tokio::test]
async fn a_route_is_authorized_by_the_limits_that_it_names() {
    let native = Native::start().await;
    let settings = [("limits", "by_address,gold"), ("cost", "2")];
    let answer = native.check(&settings, "192.0.2.1", &[]).await.unwrap();
    let Some(HttpResponse::OkResponse(ok)) = &answer.http_response else { panic!("{answer:?}") };
    let told = field(&ok.response_headers_to_add, "ratelimit").unwrap();
    assert!(told.contains("\"gcra\";r=0"), "{told}");
    let answer = native.check(&settings, "192.0.2.1", &[]).await.unwrap();
    let Some(HttpResponse::DeniedResponse(denied)) = &answer.http_response else {
        panic!("{answer:?}")
    };
    assert_eq!(answer.status.unwrap().code, i32::from(tonic::Code::ResourceExhausted));
    assert_eq!(denied.status.as_ref().unwrap().code, 429);
    assert_eq!(field(&denied.headers, "retry-after"), Some("120"));
    assert_eq!(field(&denied.headers, "content-type"), Some("application/problem+json"));
    assert!(
        denied.body.contains("\"violated-policies\":[\"gcra\",\"token_bucket\"]"),
        "{}",
        denied.body
    );
    // A denial by one limit takes nothing from the other.
    let gold = native.registry.gate("gold").peek("192.0.2.1").now().unwrap();
    assert_eq!(gold.remaining(), Some(1));
    // The route chooses the status.
    let soft = [("limits", "by_address"), ("cost", "2"), ("denied", "200")];
    assert_eq!(status_of(&native.check(&soft, "192.0.2.1", &[]).await.unwrap()), 200);
    assert_eq!(
        status_of(&native.check(&settings, "192.0.2.9", &[]).await.unwrap()),
        403,
        "blocked"
    );
    let tenant = [("limits", "by_tenant")];
    let with = [("x-tenant", "acme")];
    assert_eq!(status_of(&native.check(&tenant, "192.0.2.1", &with).await.unwrap()), 200);
    assert_eq!(status_of(&native.check(&tenant, "192.0.2.2", &with).await.unwrap()), 429);
    assert_eq!(status_of(&native.check(&tenant, "192.0.2.2", &[]).await.unwrap()), 403, "no key");
    for (settings, code) in [
        (&[("limits", "nobody")][..], tonic::Code::NotFound),
        (&[], tonic::Code::InvalidArgument),
        (&[("limits", "gold"), ("cost", "x")], tonic::Code::InvalidArgument),
    ] {
        assert_eq!(native.check(settings, "192.0.2.1", &[]).await.unwrap_err().code(), code);
    }
}

/// Regression test: a route that had once named a limit made every configuration without the limit be refused.
#[tokio::test]
async fn a_limit_that_a_route_has_named_can_be_removed() {
    let native = Native::start().await;
    for settings in [[("limits", "gold")], [("limits", "gold,by_address")]] {
        assert_eq!(status_of(&native.check(&settings, "192.0.2.1", &[]).await.unwrap()), 200);
    }
    let config = "limits: {by_address: {key: ip, policies: [\"gcra 1/min burst 2\"]}}";
    let config = Config::parse(config, "limits.yaml").expect("it is valid");
    assert!(native.registry.replace(&config).is_ok());
    for settings in [[("limits", "gold")], [("limits", "gold,by_address")]] {
        let refused = native.check(&settings, "192.0.2.1", &[]).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::NotFound);
    }
}
