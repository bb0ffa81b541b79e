//! Answers that no recording has: refunds, wrong requests, timeouts, reloads, and the other services.

use std::time::Duration;

use serde_json::json;
use sluicegate::admin::{NewOverride, OverrideTo};
use sluicegate_envoy::incumbent::{LoadOptions, Rules};
use sluicegate_envoy::service::protos::rate_limit_descriptor::{Entry, RateLimitOverride};
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tonic::{Code, IntoRequest as _};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::running::Running;

const FILE: &str = "\
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}
";

async fn running() -> Running {
    Running::embedded(&json!({"files": {"edge.yaml": FILE}})).await
}

fn of(value: &str) -> RateLimitDescriptor {
    let entry = Entry { key: "user".to_owned(), value: value.to_owned() };
    RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() }
}

fn asking(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 }
}

fn remaining(answer: &RateLimitResponse) -> Vec<u32> {
    answer.statuses.iter().map(|status| status.limit_remaining).collect()
}

#[tokio::test]
async fn negative_hits_are_given_back_down_to_nothing() {
    let running = running().await;
    let hits = |hits, is_negative_hits| RateLimitDescriptor {
        hits_addend: Some(hits),
        is_negative_hits,
        ..of("alice")
    };
    for (hits, expected) in [
        (vec![hits(4, false), hits(1, true)], [6, 7]),
        (vec![hits(99, true), hits(0, false)], [10, 10]),
        (vec![hits(12, false), hits(1, true)], [0, 0]),
        (vec![hits(2, true), hits(0, false)], [1, 1]),
    ] {
        assert_eq!(remaining(&running.ask(asking(hits)).await.expect("an answer")), expected);
    }
}

#[tokio::test]
async fn a_request_with_its_own_limit_shares_the_counter_of_a_rule_for_its_unit() {
    let running = running().await;
    let limit = |requests_per_unit, unit| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit, unit }),
        ..of("alice")
    };
    let (hour, day) = (3, 4);
    let asked = vec![of("alice"), limit(5, hour), limit(5, day), limit(7, day), of("alice")];
    let answer = running.ask(asking(asked)).await.expect("an answer");
    assert_eq!(remaining(&answer), [9, 3, 4, 5, 7]);
}

#[tokio::test]
async fn a_request_may_have_128_descriptors_and_each_counts() {
    let running = running().await;
    let answer = running.ask(asking(vec![of("alice"); 128])).await.expect("an answer");
    let expected: Vec<u32> = (0..128).map(|index: u32| 9_u32.saturating_sub(index)).collect();
    assert_eq!((remaining(&answer), answer.overall_code), (expected, 2));
    let refused = running.ask(asking(vec![of("alice"); 129])).await.expect_err("too many");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn wrong_requests_are_refused() {
    let running = running().await;
    let no_domain = RateLimitRequest { domain: String::new(), ..asking(vec![of("alice")]) };
    for request in [no_domain, asking(Vec::new())] {
        let refused = running.ask(request).await.expect_err("it is wrong");
        assert_eq!(refused.code(), Code::Unknown);
        assert!(refused.message().contains("must not be empty"), "{refused}");
    }
    let limit = Some(RateLimitOverride { requests_per_unit: 3, unit: 77 });
    let unknown = RateLimitDescriptor { limit, ..of("alice") };
    let refused = running.ask(asking(vec![unknown])).await.expect_err("no unit has this number");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_reload_keeps_what_was_consumed_and_the_registry_shows_the_rules() {
    let running = running().await;
    let answer = running.ask(asking(vec![of("alice"); 3])).await.expect("an answer");
    assert_eq!(remaining(&answer), [9, 8, 7]);
    let rules = FILE.replace("10}", "20}");
    let rules = Rules::load([("edge.yaml", rules)], LoadOptions::default()).expect("it is valid");
    let changes = running.limits.load(rules).expect("it is a set of limits");
    assert_eq!(changes.to_string(), "changed: edge/user");
    let answer = running.ask(asking(vec![of("alice")])).await.expect("an answer");
    assert_eq!(remaining(&answer), [16]);
    let names: Vec<String> =
        running.registry.limits().iter().map(|it| it.limit.name().to_string()).collect();
    assert_eq!(names, ["edge/user", "edge/override"]);
    assert_eq!(running.limits.lines().len(), 1);
}

#[tokio::test]
async fn a_call_ends_with_its_timeout() {
    let running = running().await;
    let mut request = asking(vec![of("alice")]).into_request();
    request.set_timeout(Duration::from_secs(5));
    assert!(running.ask(request).await.is_ok());
}

#[tokio::test]
async fn health_is_served_under_both_names() {
    let running = running().await;
    let mut health = HealthClient::new(running.channel.clone());
    for service in ["", "ratelimit"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await.expect("it is known").into_inner();
        assert_eq!(answer.status, 1, "`{service}`");
    }
    let request = HealthCheckRequest { service: "other".to_owned() };
    assert_eq!(health.check(request).await.expect_err("unknown").code(), Code::NotFound);
}

#[tokio::test]
async fn overrides_at_run_time_count_for_rules_and_for_counters_that_were_over() {
    let variables = json!({"LOCAL_CACHE_SIZE_IN_BYTES": "1000000"});
    let case = json!({"env": variables, "files": {"edge.yaml": FILE}});
    let running = Running::embedded(&case).await;
    let ask = async |hits| {
        let descriptor = RateLimitDescriptor { hits_addend: Some(hits), ..of("alice") };
        running.ask(asking(vec![descriptor])).await.expect("an answer")
    };
    let is_over = |answer: &RateLimitResponse| answer.overall_code == 2;
    let limit = |answer: &RateLimitResponse| {
        let limit = answer.statuses[0].current_limit.as_ref();
        limit.map(|limit| limit.requests_per_unit)
    };
    assert!(is_over(&ask(11).await) && is_over(&ask(1).await));
    let name = running.registry.limits()[0].limit.name().clone();
    let overrides = running.registry.overrides();
    let more = NewOverride::new(OverrideTo::Times("10".parse().expect("a number")));
    overrides.set(name.as_str(), None, &more).await.expect("it fits");
    let answer = ask(1).await;
    assert_eq!((is_over(&answer), limit(&answer)), (false, Some(100)), "{answer:?}");
    let block = NewOverride::new(OverrideTo::Block);
    overrides.set(name.as_str(), None, &block).await.expect("it fits");
    assert!(is_over(&ask(1).await));
    overrides.set(name.as_str(), None, &more).await.expect("it fits");
    assert!(!is_over(&ask(1).await), "the block isn't remembered");
    assert!(overrides.clear(name.as_str(), None, None).await.expect("the store answers"));
    assert_eq!(limit(&ask(1).await), Some(10));
}
