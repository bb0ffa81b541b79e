//! Calls of gRPC: a real server and a real client.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use sluicegate::http::{KeyExpression, OnMissingKey};
use sluicegate::{Config, Registry};
use sluicegate_testkit::servers::Server as Store;
use sluicegate_tower::{DeniedResponse, LimitLayer};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt as _;

use super::serve;
use super::web::Limits;

/// Returns a server of the health service, and a client of it.
async fn health<D>(layer: LimitLayer<D>) -> HealthClient<Channel>
where
    D: DeniedResponse<tonic::body::Body> + Clone + Send + Sync + 'static,
{
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    client(site).await
}

async fn client(site: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{site}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

async fn check(client: &mut HealthClient<Channel>, account: &str) -> Result<(), Status> {
    let mut request = Request::new(HealthCheckRequest::default());
    if !account.is_empty() {
        request.metadata_mut().insert("x-account", account.parse().unwrap());
    }
    client.check(request).await.map(drop)
}

#[tokio::test]
async fn a_client_reads_that_its_quota_is_exhausted_and_when_to_come_back() {
    let limits = Limits::with("fixed_window 1/min as minute");
    let mut client = health(LimitLayer::new(limits.api()).without_bodies()).await;
    let admitted = client.check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(admitted.metadata().get("ratelimit").unwrap(), "\"minute\";r=0;t=60");

    let status = check(&mut client, "").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "The request exceeds its quota. Try again in 1 min.");
    let details = status.get_error_details();
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_secs(60)));
    let violation = &details.quota_failure().unwrap().violations[0];
    assert!(format!("{violation:?}").contains("minute"), "{violation:?}");
    let info = details.error_info().unwrap();
    assert_eq!((&*info.reason, &*info.domain), ("RATE_LIMITED", "sluicegate"));
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "60000");
    assert_eq!(status.metadata().get("retry-after").unwrap(), "60");

    limits.pass(60);
    check(&mut client, "").await.unwrap();
    assert_eq!(limits.left("api", "127.0.0.1"), 0, "the peer's address is known");
}

#[tokio::test]
async fn a_client_reads_that_the_store_is_full_and_no_quota_is_exhausted() {
    let config = "memory: {max_keys: 1, overflow: deny}\nlimits: {api: {policies: [token_bucket 0/s burst 5]}}";
    let config = Config::parse(config, "limits.yaml").unwrap();
    let layer = LimitLayer::new(Registry::open(&config).unwrap().gate("api"));
    let key = "header:x-account".parse::<KeyExpression>().unwrap();
    let mut client = health(layer.key(key).without_bodies()).await;
    check(&mut client, "alice").await.unwrap();
    let status = check(&mut client, "bob").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let message = "The service can't count more clients for now. Try again later.";
    assert_eq!(status.message(), message);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "STORE_FULL");
    assert!(details.quota_failure().is_none(), "{details:?}");
    check(&mut client, "alice").await.unwrap();
}

#[tokio::test]
async fn metadata_and_methods_make_keys() {
    let limits = Limits::with("fixed_window 1/h");
    let key = "header:x-account+path".parse::<KeyExpression>().unwrap();
    let layer = LimitLayer::new(limits.api()).key(key).on_missing_key(OnMissingKey::Refuse);
    let mut client = health(layer.without_bodies()).await;
    check(&mut client, "alice").await.unwrap();
    check(&mut client, "bob").await.unwrap();
    let exhausted = check(&mut client, "alice").await.unwrap_err();
    assert_eq!(exhausted.code(), Code::ResourceExhausted);
    assert_eq!(limits.left("api", "alice|/grpc.health.v1.Health/Check"), 0);

    let lacking = check(&mut client, "").await.unwrap_err();
    assert_eq!(lacking.code(), Code::InvalidArgument);
    assert!(lacking.message().contains("no header field `x-account`"), "{lacking}");
    assert_eq!(lacking.get_error_details().error_info().unwrap().reason, "MISSING_KEY");
}

#[tokio::test]
async fn each_method_has_the_limit_that_a_function_chooses() {
    let limits = Limits::of(
        "limits: {checks: {policies: [fixed_window 3/h]}, streams: {policies: [fixed_window 1/h]}}",
    );
    let (checks, streams) = (limits.gate("checks"), limits.gate("streams"));
    let layer = LimitLayer::by(move |request| match request.path() {
        "/grpc.health.v1.Health/Watch" => streams.clone(),
        _ => checks.clone(),
    });
    let mut client = health(layer.without_bodies()).await;
    for _ in 0..3 {
        check(&mut client, "").await.unwrap();
    }
    client.watch(HealthCheckRequest::default()).await.unwrap();
    let streams = client.watch(HealthCheckRequest::default()).await.unwrap_err();
    let checks = check(&mut client, "").await.unwrap_err();
    assert_eq!([streams.code(), checks.code()], [Code::ResourceExhausted; 2]);
}

#[tokio::test]
async fn a_stream_is_one_call() {
    let limits = Limits::with("fixed_window 1/h");
    let mut client = health(LimitLayer::new(limits.api()).without_bodies()).await;
    let watched = client.watch(HealthCheckRequest::default()).await.unwrap();
    assert!(watched.into_inner().message().await.unwrap().is_some());
    let status = client.watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_stream_is_in_flight_until_it_ends_and_its_trailers_say_what_it_used() {
    let limits = Limits::of(
        "limits: {api: {policies: [concurrency 1 hold 30s as open, fixed_window 100/h as units]}}",
    );
    let status = http::HeaderName::from_static("grpc-status");
    let layer = LimitLayer::new(limits.api()).cost(|_| [("open", 1), ("units", 50)]).settle_at_end(
        move |served| {
            let is_ok = served.trailer(&status) == Some(b"0".as_slice());
            is_ok.then(|| [("units", served.bytes())])
        },
    );
    let mut client = health(layer.without_bodies()).await;
    let units = |limits: &Limits| {
        let decision = limits.registry.gate("api").peek("127.0.0.1").now().unwrap();
        [0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap())
    };
    let settled = async |expected: [u64; 2]| {
        sluicegate_testkit::wait::until_async("the stream to be settled", async || {
            let seen = units(&limits);
            if seen == expected { Ok(()) } else { Err(seen) }
        })
        .await;
    };
    // Its answer is a message of two bytes after five of gRPC.
    check(&mut client, "").await.unwrap();
    settled([1, 93]).await;

    let mut watched = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watched.message().await.unwrap().is_some());
    assert_eq!(units(&limits), [0, 43]);
    let status = check(&mut client, "").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    drop(watched);
    settled([1, 43]).await;
}

#[tokio::test]
async fn a_blocked_client_is_denied_and_a_failing_store_unavailable() {
    let limits = Limits::of("limits: {api: {policies: [gcra 9/s], block: [127.0.0.1]}}");
    let mut client = health(LimitLayer::new(limits.api()).without_bodies()).await;
    let status = check(&mut client, "").await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.get_error_details().retry_info().is_none());

    let mut store = Store::start().unwrap();
    let config = format!("store: \"{}\"\nlimits: {{api: {{policies: [gcra 9/s]}}}}", store.url());
    let config = Config::parse(&config, "limits.yaml").unwrap();
    let registry = Registry::open(&config).unwrap();
    store.kill().unwrap();
    let mut client = health(LimitLayer::new(registry.gate("api")).without_bodies()).await;
    let status = check(&mut client, "").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn services_of_grpc_in_a_router_of_axum_are_denied_in_their_way() {
    let limits = Limits::with("fixed_window 1/h");
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let routes = tonic::service::Routes::new(service).into_axum_router();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = listener.local_addr().unwrap();
    let router: Router = routes.layer(LimitLayer::new(limits.api()));
    let make = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, make).await });
    let mut client = client(site).await;
    check(&mut client, "").await.unwrap();
    let status = check(&mut client, "").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let delay = status.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(delay, Some(Duration::from_secs(3_600)));
}

#[tokio::test]
async fn whoever_speaks_http_gets_a_problem() {
    let limits = Limits::with("fixed_window 0/h");
    let client = serve(Router::new().layer(LimitLayer::new(limits.api()))).await;
    for (media_type, status) in [
        ("application/json", 429),
        ("application/grpc-web+proto", 429),
        ("application/grpcish", 429),
        ("application/grpc+proto", 200),
        ("APPLICATION/GRPC", 200),
    ] {
        let reply = client.send("POST", "/", &[("content-type", media_type)]).await;
        assert_eq!(reply.status, status, "{media_type}");
        let has_status = reply.field("grpc-status").as_deref() == Some("8");
        assert_eq!(has_status, status == 200, "{media_type}");
    }
}
