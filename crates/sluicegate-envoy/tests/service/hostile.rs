//! Broken and oversized calls are refused or answered, and count as they should.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::incumbent::{LoadOptions, Rules, Settings};
use sluicegate_envoy::service::protos::rate_limit_descriptor::{Entry, RateLimitOverride};
use sluicegate_envoy::service::protos::{
    AttributeContext, CheckRequest, CheckResponse, RateLimitDescriptor, RateLimitRequest,
    RateLimitResponse, attribute_context,
};
use sluicegate_envoy::service::{NativeLimits, RateLimits, Unguarded, native_routes, routes};
use tonic::codegen::{Service as _, http};
use tonic::service::Routes;
use tonic::{Code, Status};

const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";

/// Returns the services of a registry's own limits, and of the incumbent's rules: five requests a day for each user.
async fn services() -> [Routes; 2] {
    let config = "limits: {five: {policies: [fixed_window 5/d]}}\n\
                  envoy: {domains: {edge: [{match: {user: \"*\"}, limit: five}]}}";
    let config = Config::parse(config, "limits.yaml").expect("it is valid");
    let registry = Registry::builder(MemoryStore::new()).config(&config).build();
    let native =
        native_routes(NativeLimits::new(registry), Unguarded).await.expect("they are valid");
    let file = "domain: edge\ndescriptors:\n  \
                - {key: user, rate_limit: {unit: day, requests_per_unit: 5}}\n";
    let mut base = Config::default();
    base.limits.clear();
    let registry = Registry::builder(MemoryStore::new()).build();
    let limits = RateLimits::new(registry, base, Settings::default());
    let rules = Rules::load([("edge.yaml", file)], LoadOptions::default()).expect("it is valid");
    limits.load(rules).expect("they are limits");
    [native.routes, routes(limits, Unguarded).await.expect("they are valid").routes]
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// Sends a body to the rate limit service, and reads the answer.
async fn send(routes: &Routes, body: Vec<u8>) -> Result<RateLimitResponse, Status> {
    let answer = call(routes, RATE_LIMIT, body).await?;
    Ok(RateLimitResponse::decode(&answer[..]).expect("an answer"))
}

/// Sends a body. Returns the message of the answer.
async fn call(routes: &Routes, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Status> {
    let body = tonic::body::Body::new(Full::new(body.into()));
    let request = http::Request::post(path).header("content-type", "application/grpc").body(body);
    let answer = routes.clone().call(request.expect("it is valid")).await;
    let (head, body) = answer.unwrap_or_else(|never: Infallible| match never {}).into_parts();
    let body = body.collect().await.expect("an answer has its end");
    let status = body.trailers().and_then(Status::from_header_map);
    let status = status.or_else(|| Status::from_header_map(&head.headers)).expect("a status");
    if status.code() != Code::Ok {
        return Err(status);
    }
    Ok(body.to_bytes()[5..].to_vec())
}

async fn ask(routes: &Routes, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
    send(routes, framed(&request.encode_to_vec())).await
}

fn of(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry =
        |&(key, value): &(&str, &str)| Entry { key: key.to_owned(), value: value.to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

fn asking(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 1 }
}

#[tokio::test]
async fn a_call_that_is_cut_at_any_byte_is_refused_or_answered_for_what_it_has() {
    let own = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 300, unit: 3 }),
        hits_addend: Some(300),
        is_negative_hits: true,
        ..of(&[("user", "carol"), ("path", "/")])
    };
    let message = asking("edge", vec![of(&[("user", "alice")]), of(&[("user", "é")]), own]);
    let message = message.encode_to_vec();
    for routes in &services().await {
        for end in 0..=message.len() {
            let cut = &message[..end];
            let answer = send(routes, framed(cut)).await;
            match (RateLimitRequest::decode(cut), answer) {
                (Ok(request), Ok(answer)) => {
                    assert_eq!(answer.statuses.len(), request.descriptors.len());
                }
                // No domain, no descriptors, or a refund without the right to it.
                (Ok(_), Err(refused)) => {
                    let codes = [Code::Unknown, Code::PermissionDenied];
                    assert!(codes.contains(&refused.code()), "{refused}");
                }
                (Err(_), answer) => assert_eq!(answer.unwrap_err().code(), Code::Internal),
            }
        }
        let body = framed(&message);
        for end in 0..body.len() {
            let refused = send(routes, body[..end].to_vec()).await.unwrap_err();
            assert_eq!(refused.code(), Code::Internal, "{end}: {refused}");
        }
    }
}

#[tokio::test]
async fn an_authorization_that_is_cut_at_any_byte_is_refused_or_answered() {
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let http = attribute_context::HttpRequest {
        method: "GET".to_owned(),
        path: "/cart?item=7".to_owned(),
        headers: [own(("x-user", "alice"))].into(),
        ..Default::default()
    };
    let attributes = AttributeContext {
        request: Some(attribute_context::Request { http: Some(http) }),
        context_extensions: [own(("limits", "five")), own(("cost", "2"))].into(),
        ..Default::default()
    };
    let message = CheckRequest { attributes: Some(attributes) }.encode_to_vec();
    let [routes, _] = services().await;
    for end in 0..=message.len() {
        let answer = call(&routes, CHECK, framed(&message[..end])).await;
        match (CheckRequest::decode(&message[..end]), answer) {
            (Ok(_), Ok(answer)) => {
                let answer = CheckResponse::decode(&answer[..]).unwrap();
                assert!(answer.http_response.is_some(), "{answer:?}");
            }
            // It names no limit.
            (Ok(_), Err(refused)) => assert_eq!(refused.code(), Code::InvalidArgument),
            (Err(_), answer) => assert_eq!(answer.unwrap_err().code(), Code::Internal),
        }
    }
}

#[tokio::test]
async fn frames_of_another_encoding_or_length_are_refused() {
    let message = asking("edge", vec![of(&[("user", "alice")])]).encode_to_vec();
    let body = framed(&message);
    let long = framed(&vec![0; 5 << 20]);
    for routes in &services().await {
        for (body, code) in [
            ([&[1], &body[1..]].concat(), Code::Internal),
            ([&[2], &body[1..]].concat(), Code::Internal),
            (vec![0, 0xff, 0xff, 0xff, 0xff], Code::OutOfRange),
            (long.clone(), Code::OutOfRange),
        ] {
            let refused = send(routes, body).await.unwrap_err();
            assert_eq!(refused.code(), code, "{refused}");
        }
        let answer = send(routes, body.clone()).await.unwrap();
        assert_eq!(answer.statuses[0].limit_remaining, 4, "refused calls count nothing");
    }
}

#[tokio::test]
async fn long_strange_and_many_entries_are_counted_like_others() {
    let long = "x".repeat(1 << 20);
    let [one, other] = ["1", "2"].map(|end| format!("{long}{end}"));
    let many: Vec<(&str, &str)> = (0..100).map(|_| ("user", "alice")).collect();
    let values = [one.as_str(), other.as_str(), "", "\0", "\0\0", "a\0b", "\u{7}\r\n", "{}", "é"];
    for routes in &services().await {
        for value in values {
            for left in [4, 3] {
                let answer = ask(routes, &asking("edge", vec![of(&[("user", value)])])).await;
                let status = &answer.unwrap().statuses[0];
                assert_eq!(status.limit_remaining, left, "{} bytes", value.len());
            }
        }
        // No rule has these.
        for descriptor in [of(&many), of(&[]), of(&[(&one, "a")]), of(&[("\0", "\0")])] {
            let answer = ask(routes, &asking("edge", vec![descriptor.clone()])).await.unwrap();
            assert_eq!((answer.overall_code, &answer.statuses[0].current_limit), (1, &None));
            let answer = ask(routes, &asking(&one, vec![descriptor])).await.unwrap();
            assert_eq!(answer.overall_code, 1);
        }
    }
}
