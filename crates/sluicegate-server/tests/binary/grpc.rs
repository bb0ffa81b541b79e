//! Tests the gRPC listener with clients of tonic.

use std::time::Duration;

use axum::http::Uri;
use rustix::process::Signal;
use sluicegate_envoy::service::protos::rate_limit_descriptor::Entry;
use sluicegate_envoy::service::protos::rate_limit_service_client::RateLimitServiceClient;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until_async;
use tokio::net::UnixStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tower::service_fn;

use crate::support::{Client, File, Service};

const FREE: &str = "127.0.0.1:0";

fn endpoint(text: String) -> Endpoint {
    Endpoint::from_shared(text).unwrap().timeout(Duration::from_secs(60))
}

async fn channel(service: &Service) -> Channel {
    endpoint(format!("http://{}", service.address_of("grpc"))).connect().await.unwrap()
}

fn request() -> RateLimitRequest {
    let entry = Entry { key: "user".to_owned(), value: "alice".to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors: vec![descriptor],
        ..RateLimitRequest::default()
    }
}

/// Asks the rate limit service. Without rules, every descriptor is OK.
async fn ask(channel: Channel) {
    let mut client = RateLimitServiceClient::new(channel);
    let answer = client.should_rate_limit(request()).await.unwrap().into_inner();
    assert_eq!((answer.overall_code, answer.statuses.len()), (1, 1), "{answer:?}");
}

/// Returns the status that the health service reports, as its number.
async fn health(channel: Channel, service: &str) -> Result<i32, tonic::Status> {
    let request = HealthCheckRequest { service: service.to_owned() };
    Ok(HealthClient::new(channel).check(request).await?.into_inner().status)
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn envoys_protocol_is_spoken_over_tcp_and_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grpc.sock");
    let unix = format!("unix:{}", path.display());
    for address in [FREE, &unix] {
        let service = Service::start(&["--grpc", address]);
        let channel = if address == FREE {
            channel(&service).await
        } else {
            let path = path.clone();
            let connect = service_fn(move |_: Uri| {
                let path = path.clone();
                async move {
                    Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(
                        UnixStream::connect(path).await?,
                    ))
                }
            });
            endpoint("http://localhost".to_owned()).connect_with_connector(connect).await.unwrap()
        };
        ask(channel.clone()).await;
        let wrong = RateLimitRequest { domain: String::new(), ..request() };
        let mut client = RateLimitServiceClient::new(channel);
        let refused = client.should_rate_limit(wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unknown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_the_services() {
    let service = Service::start(&["--grpc", FREE]);
    let mut client = ServerReflectionClient::new(channel(&service).await);
    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = client.server_reflection_info(tokio_stream(list)).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<String> = listed.service.into_iter().map(|it| it.name).collect();
    for name in ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|it| it == name), "{names:?}");
    }
}

/// Returns a stream of one message.
fn tokio_stream<T: Send + 'static>(message: T) -> impl tokio_stream::Stream<Item = T> {
    tokio_stream::once(message)
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_that_of_readyz() {
    let mut server = Server::start().unwrap();
    let text = format!(
        "store: \"{}\"\nlimits: {{a: {{policies: [gcra 9/h], deadline: 1s}}}}",
        server.url()
    );
    let file = File::new("limits.yaml", &text);
    server.kill().unwrap();
    let service = Service::start(&["--config", file.path(), "--grpc", FREE, "--drain", "60s"]);
    let channel = channel(&service).await;
    for name in ["", "ratelimit"] {
        assert_eq!(health(channel.clone(), name).await.unwrap(), NOT_SERVING, "{name}");
    }
    assert_eq!(health(channel.clone(), "other").await.unwrap_err().code(), Code::NotFound);
    server.restart().unwrap();
    let reports = async |expected: i32| {
        until_async("the status", async || match health(channel.clone(), "").await {
            Ok(status) if status == expected => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    };
    reports(SERVING).await;
    service.signal(Signal::TERM);
    reports(NOT_SERVING).await;
}

/// A server that hangs, called by the maximum number of requests of both protocols together.
#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_their_turn_and_health_does_not() {
    let mut server = Server::start().unwrap();
    let text = format!(
        "store: \"{}\"\nservice: {{max_requests: 1}}\n\
         limits: {{demo: {{policies: [gcra 1/s burst 9], deadline: 30s}}}}",
        server.url()
    );
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path(), "--grpc", FREE]);
    let check = r#"{"limit":"demo","key":"a"}"#;
    assert_eq!(service.post("/v1/check", check).status, 200);
    server.pause().unwrap();
    let mut asking = Client::connect(service.address()).unwrap();
    let length = check.len();
    asking
        .send(&format!(
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{check}"
        ))
        .unwrap();
    let channel = channel(&service).await;
    let refused = until_async("it is refused", async || {
        let mut client = RateLimitServiceClient::new(channel.clone());
        match client.should_rate_limit(request()).await {
            Ok(answer) => Err(answer.into_inner()),
            Err(status) => Ok(status),
        }
    })
    .await;
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("nothing was charged"), "{refused:?}");
    assert_eq!(health(channel.clone(), "").await.unwrap(), SERVING);
    server.resume().unwrap();
    assert_eq!(asking.reply().unwrap().status, 200);
    ask(channel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_ask_their_limits_and_only_administrators_return_units() {
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{name}-token")).unwrap();
        path.display().to_string()
    };
    let text = format!(
        "limits: {{api: {{policies: [gcra 1/h burst 9]}}, secret: {{policies: [gcra 1/h burst 9]}}}}\n\
         envoy: {{domains: {{edge: [{{match: {{user: \"*\"}}, limit: api}}, {{match: {{key: \"*\"}}, limit: secret}}]}}}}\n\
         clients:\n\
         - {{name: proxy, token_file: {}, may: [check], limits: [api]}}\n\
         - {{name: boss, token_file: {}, may: [admin]}}\n",
        token("proxy"),
        token("boss")
    );
    let file = File::new("limits.yaml", &text);
    let service = Service::start(&["--config", file.path(), "--grpc", FREE]);
    let client = RateLimitServiceClient::new(channel(&service).await);
    let ask = async |token: &str, key: &str, is_negative_hits: bool| {
        let entry = Entry { key: key.to_owned(), value: "alice".to_owned() };
        let descriptor = RateLimitDescriptor {
            entries: vec![entry],
            hits_addend: Some(1),
            is_negative_hits,
            ..RateLimitDescriptor::default()
        };
        let request = RateLimitRequest { descriptors: vec![descriptor], ..request() };
        let mut request = tonic::Request::new(request);
        if !token.is_empty() {
            request
                .metadata_mut()
                .insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let answer = client.clone().should_rate_limit(request).await?.into_inner();
        Ok::<_, tonic::Status>(answer.statuses[0].limit_remaining)
    };
    assert_eq!(ask("proxy-token", "user", false).await.unwrap(), 8);
    for (token, key, is_negative, code) in [
        ("", "user", false, Code::Unauthenticated),
        ("wrong", "user", false, Code::Unauthenticated),
        ("proxy-token", "key", false, Code::PermissionDenied),
        ("proxy-token", "user", true, Code::PermissionDenied),
    ] {
        let refused = ask(token, key, is_negative).await.unwrap_err();
        assert_eq!(refused.code(), code, "{token} {key}: {refused}");
    }
    assert_eq!(ask("boss-token", "user", true).await.unwrap(), 9);
    assert_eq!(ask("boss-token", "key", false).await.unwrap(), 8);
    assert_eq!(health(channel(&service).await, "").await.unwrap(), SERVING, "open to all");
    let requests = service.get("/metrics").body;
    assert!(
        requests.contains(r#"sluicegate_client_requests_total{client="proxy"} 3"#),
        "{requests}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_clients_programs_on_this_machine_return_units_and_then_only_with_the_admin_token()
{
    let text = "limits: {api: {policies: [gcra 1/h burst 9]}}\n\
                envoy: {domains: {edge: [{match: {user: \"*\"}, limit: api}]}}";
    let file = File::new("limits.yaml", text);
    let refund = async |service: &Service, fields: &[(&'static str, &str)]| {
        let descriptor = RateLimitDescriptor {
            hits_addend: Some(1),
            is_negative_hits: true,
            ..request().descriptors.remove(0)
        };
        let mut asked =
            tonic::Request::new(RateLimitRequest { descriptors: vec![descriptor], ..request() });
        for (name, value) in fields {
            asked.metadata_mut().insert(*name, value.parse().unwrap());
        }
        let mut client = RateLimitServiceClient::new(channel(service).await);
        client.should_rate_limit(asked).await.map_err(|status| status.code()).map(|_| ())
    };
    let open = Service::start(&["--config", file.path(), "--grpc", FREE]);
    assert_eq!(refund(&open, &[]).await, Ok(()));
    assert_eq!(refund(&open, &[("via", "1.1 proxy")]).await, Err(Code::PermissionDenied));
    let variables = [("SLUICEGATE_ADMIN_TOKEN", "secret")];
    let closed = Service::start_with(&variables, &["--config", file.path(), "--grpc", FREE]);
    assert_eq!(refund(&closed, &[]).await, Err(Code::PermissionDenied));
    assert_eq!(refund(&closed, &[("authorization", "Bearer secret")]).await, Ok(()));
}
