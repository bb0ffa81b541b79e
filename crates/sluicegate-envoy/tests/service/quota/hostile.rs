//! Broken, absurd and frequent reports.

use sluicegate_envoy::service::QuotaStream;
use sluicegate_envoy::service::protos::rate_limit_quota_usage_reports::BucketQuotaUsage;
use sluicegate_envoy::service::protos::{BucketId, RateLimitQuotaUsageReports};
use tonic::Code;

use super::{Service, Told, ask, ask_one, reports, usage};

#[tokio::test]
async fn a_stream_has_one_domain_in_its_first_message_or_in_each() {
    let service = Service::new();
    let mut envoy = service.open();
    let without = || RateLimitQuotaUsageReports {
        domain: String::new(),
        bucket_quota_usages: vec![usage(("name", "all"), 1, 0, 0)],
    };
    assert_eq!(envoy.take(without()).unwrap_err().code(), Code::InvalidArgument);
    assert!(ask_one(&mut envoy, 1, 0, 0).await.is_some());
    service.pass(5_000);
    envoy.take(without()).unwrap();
    assert!(envoy.answer().await.unwrap().is_some());
    let other = RateLimitQuotaUsageReports { domain: "other".to_owned(), ..without() };
    assert_eq!(envoy.take(other).unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_report_without_a_bucket_is_accepted() {
    let service = Service::new();
    assert!(ask(&mut service.open(), []).await.is_empty());
}

#[tokio::test]
async fn absurd_reports_are_ignored_and_counted_and_others_are_answered() {
    let service = Service::new();
    let mut envoy = service.open();
    let entries = |number: usize| (0..number).map(|index| (index.to_string(), String::new()));
    let of = |entries: Vec<(String, String)>| BucketQuotaUsage {
        bucket_id: Some(BucketId { bucket: entries.into_iter().collect() }),
        num_requests_allowed: 1,
        ..BucketQuotaUsage::default()
    };
    let absurd = [
        BucketQuotaUsage { bucket_id: None, ..of(Vec::new()) },
        of(Vec::new()),
        of(entries(100).collect()),
        of(vec![("user".to_owned(), "x".repeat(2_000))]),
        usage(("name", "all"), 1 << 63, 0, 0),
        usage(("name", "all"), 0, u64::MAX, 0),
    ];
    assert!(ask(&mut envoy, absurd.clone()).await.is_empty());
    assert_eq!(service.quotas.counts().ignored, [4, 0, 2]);
    let negative = usage(("name", "all"), 1, 0, i64::MIN);
    let missing = BucketQuotaUsage { time_elapsed: None, ..usage(("user", "a"), 1, 0, 0) };
    let mut both = absurd.to_vec();
    both.extend([negative, missing]);
    let told = ask(&mut envoy, both).await;
    assert!(told.iter().all(|(_, told)| matches!(told, Told::Share { .. })), "{told:?}");
    assert_eq!(told.len(), 2);
}

#[tokio::test]
async fn a_bucket_that_is_reported_twice_in_a_message_is_answered_once() {
    let service = Service::new();
    let mut envoy = service.open();
    let bucket = || usage(("name", "all"), 500, 0, 0);
    assert_eq!(ask(&mut envoy, [bucket(), bucket()]).await.len(), 1);
    service.pass(5_000);
    let told = ask(&mut envoy, [bucket(), bucket()]).await;
    assert!(matches!(told[..], [(_, Told::Share { rate: 221, .. })]), "both count: {told:?}");
}

#[tokio::test]
async fn ten_thousand_buckets_are_answered_and_no_more() {
    let service = Service::new();
    let mut envoy = service.open();
    let users: Vec<String> = (0..QuotaStream::MOST_BUCKETS + 1).map(|it| it.to_string()).collect();
    let all: Vec<_> = users.iter().map(|user| usage(("user", user), 1, 0, 0)).collect();
    let told = ask(&mut envoy, all).await;
    assert_eq!(told.len(), QuotaStream::MOST_BUCKETS);
    let one_more = ask(&mut envoy, [usage(("user", "one more"), 1, 0, 0)]).await;
    assert!(one_more.is_empty());
    let counts = service.quotas.counts();
    assert_eq!((counts.ignored, counts.buckets), ([0, 2, 0], 10_000));
    // Another stream isn't affected.
    assert!(ask_one(&mut service.open(), 1, 0, 0).await.is_some());
}

/// A client that reports all the time gets no more bookings than others.
#[tokio::test]
async fn frequent_reports_are_collected() {
    let service = Service::new();
    let mut envoy = service.open();
    assert!(ask_one(&mut envoy, 1, 0, 0).await.is_some());
    for _ in 0..999 {
        service.pass(1);
        assert_eq!(ask_one(&mut envoy, 1, 0, 0).await, None);
    }
    service.pass(1);
    assert!(ask_one(&mut envoy, 1, 0, 0).await.is_some());
    assert_eq!(service.quotas.counts().assigned + service.quotas.counts().carried_on, 2);
}

#[tokio::test]
async fn a_liar_gets_at_most_its_fair_share() {
    let service = Service::new();
    let (mut honest, mut liar) = (service.open(), service.open());
    let mut rates = [0, 0];
    for round in 0..8 {
        let seconds = if round == 0 { 0 } else { 4 };
        let got = [
            ask_one(&mut honest, 0, 5_000, seconds).await,
            ask_one(&mut liar, 0, QuotaStream::MOST_REQUESTS, seconds).await,
        ];
        rates = got.map(|told| match told {
            Some(Told::Share { rate, .. }) => rate,
            _ => 0,
        });
        service.pass(5_000);
    }
    assert!(rates[1] <= 490 && rates[0] >= 430, "{rates:?}");
}

#[tokio::test]
async fn a_client_without_the_right_to_a_limit_is_refused() {
    let service = Service::new();
    let rights = sluicegate_envoy::service::Rights::new(false, |limit| Err(format!("not {limit}")));
    let mut envoy = service.quotas.open(rights);
    envoy.take(reports([usage(("name", "all"), 1, 0, 0)])).unwrap();
    assert_eq!(envoy.answer().await.unwrap_err().code(), Code::PermissionDenied);
}
