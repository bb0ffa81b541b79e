//! Conversations over gRPC.

use sluicegate_envoy::service::protos::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
use sluicegate_envoy::service::{NativeLimits, Unguarded, native_routes};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use super::{Service, Told, read, reports, usage};
use crate::running::serve_routes;

#[tokio::test]
async fn reports_are_answered_over_grpc_with_the_ids_as_they_came() {
    let service = Service::new();
    let limits = NativeLimits::with_quotas(service.quotas.clone());
    let routes = native_routes(limits, Unguarded).await.expect("they are valid").routes;
    let mut client = RateLimitQuotaServiceClient::new(serve_routes(routes).await);
    let (sender, receiver) = mpsc::channel(1);
    let answers = client.stream_rate_limit_quotas(ReceiverStream::new(receiver)).await;
    let mut answers = answers.expect("a stream").into_inner();
    let sent = reports([usage(("user", "é"), 1, 0, 0), usage(("name", "all"), 1, 0, 0)]);
    for round in 0..3 {
        sender.send(sent.clone()).await.expect("it reads");
        let told = read(answers.message().await.expect("an answer").expect("an answer"));
        assert_eq!(told.len(), 2);
        for (usage, (id, told)) in sent.bucket_quota_usages.iter().zip(told) {
            assert_eq!(usage.bucket_id, Some(id));
            assert!(matches!(told, Told::Share { .. }), "{round}: {told:?}");
        }
        service.pass(5_000);
    }
    assert_eq!(service.quotas.counts().streams, 1);
    // A service that stops ends the stream, and its client connects to another replica.
    service.quotas.close();
    assert!(answers.message().await.expect("no failure").is_none());
}

#[tokio::test]
async fn a_stream_without_a_domain_ends_with_a_status() {
    let service = Service::new();
    let limits = NativeLimits::with_quotas(service.quotas.clone());
    let routes = native_routes(limits, Unguarded).await.expect("they are valid").routes;
    let mut client = RateLimitQuotaServiceClient::new(serve_routes(routes).await);
    let mut sent = reports([usage(("name", "all"), 1, 0, 0)]);
    sent.domain.clear();
    let answers = client.stream_rate_limit_quotas(tokio_stream::once(sent)).await;
    let refused = answers.expect("a stream").into_inner().message().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("set `domain`"), "{refused}");
}
