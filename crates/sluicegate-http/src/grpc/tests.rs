use std::time::Duration;

use proptest::prelude::*;
use prost::Message as _;
use sluicegate_core::Span;
use sluicegate_core::for_stores::DecisionForStores as _;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::*;
use crate::key_component::KeyComponent;
use crate::test_limit::TestLimit;

/// Returns the status as a client reads it.
fn received(status: &GrpcStatus) -> tonic::Status {
    let response: Response<()> = status.clone().into_response();
    assert_eq!(response.status(), 200);
    tonic::Status::from_header_map(response.headers()).unwrap()
}

fn pushback(status: &tonic::Status) -> Option<&str> {
    status.metadata().get("grpc-retry-pushback-ms").map(|value| value.to_str().unwrap())
}

#[test]
fn a_denial_says_what_refused_and_when_to_come_back() {
    let test = TestLimit::new(&[
        "token_bucket 3/s burst 1 as burst",
        "gcra 1/h burst 1 shadow as secret",
        "fixed_window 9/h as hour",
    ]);
    assert!(test.check(1).is_allowed());
    let status = GrpcStatus::from_denial(&test.check(1)).with_domain("api.example");
    let received = received(&status);
    assert_eq!(received.code(), Code::ResourceExhausted);
    assert_eq!(received.message(), "The request exceeds its quota. Try again in 334 ms.");
    assert_eq!(pushback(&received), Some("334"));

    let details = received.get_error_details();
    let delay = details.retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(delay.as_nanos(), 333_334_000);
    let info = details.error_info().unwrap();
    assert_eq!((&*info.reason, &*info.domain), ("RATE_LIMITED", "api.example"));
    assert_eq!(info.metadata["limit"], "l");
    let [violation] = &details.quota_failure().unwrap().violations[..] else {
        panic!("{details:?}");
    };
    assert_eq!(violation.subject, "policy:burst");
    assert_eq!(violation.quota_id, "burst");
    assert_eq!(violation.quota_value, 1);
}

#[test]
fn what_can_never_pass_is_not_to_be_sent_again() {
    let test = TestLimit::new(&["token_bucket 3/s burst 1"]);
    let received = received(&GrpcStatus::from_denial(&test.check(2)));
    assert_eq!(received.code(), Code::ResourceExhausted);
    assert_eq!(pushback(&received), Some("-1"));
    let details = received.get_error_details();
    assert!(details.retry_info().is_none());
    assert_eq!(details.quota_failure().unwrap().violations.len(), 1);
}

#[test]
fn a_wait_that_no_client_can_be_told_is_never() {
    // More than the 2^31 ms that the field can hold.
    let test = TestLimit::new(&["fixed_window 1/25d"]);
    assert!(test.check(1).is_allowed());
    let status = GrpcStatus::from_denial(&test.check(1));
    assert_eq!(status.retry_pushback(), Some(-1));
    test.advance(Span::DAY);
    let status = GrpcStatus::from_denial(&test.check(1));
    assert_eq!(status.retry_pushback(), Some(24 * 86_400_000));
}

#[test]
fn every_other_reason_has_its_code() {
    let test = TestLimit::new(&["gcra 1/s"]);
    let missing = MissingComponent::absent(KeyComponent::Cookie("é%\n".into()));
    for (status, code, reason, told) in [
        (
            GrpcStatus::from_denial(&Decision::fallback(&test.limit, false)),
            Code::Unavailable,
            "RATE_LIMITER_UNAVAILABLE",
            None,
        ),
        (
            GrpcStatus::from_denial(&Decision::bypass(false)),
            Code::PermissionDenied,
            "BLOCKED",
            Some("-1"),
        ),
        (GrpcStatus::invalid_argument(&missing), Code::InvalidArgument, "MISSING_KEY", Some("-1")),
    ] {
        let received = received(&status);
        assert_eq!(received.code(), code);
        assert_eq!(received.message(), status.message());
        assert_eq!(pushback(&received), told, "{reason}");
        let details = received.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, reason);
        assert!(details.retry_info().is_none() && details.quota_failure().is_none(), "{reason}");
    }
}

#[test]
fn a_call_is_known_by_its_content_type() {
    for (media_type, expected) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("Application/gRPC;charset=utf-8", true),
        ("application/grpc-web", false),
        ("application/grpc-web+proto", false),
        ("application/grpcx", false),
        ("application/json", false),
        ("application/gr", false),
        ("", false),
    ] {
        let request = http::Request::post("/").header(CONTENT_TYPE, media_type).body(()).unwrap();
        assert_eq!(is_grpc(&request), expected, "{media_type}");
    }
    assert!(!is_grpc(&http::Request::new(())));
}

fn code() -> impl Strategy<Value = GrpcCode> {
    prop_oneof![
        Just(GrpcCode::InvalidArgument),
        Just(GrpcCode::PermissionDenied),
        Just(GrpcCode::ResourceExhausted),
        Just(GrpcCode::Unavailable),
    ]
}

proptest! {
    #[test]
    fn a_client_reads_the_same_status(
        code in code(), message in any::<String>(), domain in any::<String>(), limit in "[ -~]{0,9}",
        violations in prop::collection::vec(("\\PC{0,200}", prop::option::of(0..1_u64 << 53)), 0..4),
        wait in prop::option::of(1..1_u64 << 53),
    ) {
        let retry = wait.map(|micros| RetryAfter::After(Duration::from_micros(micros)));
        let status = GrpcStatus {
            code,
            message: message.clone().into(),
            details: Details {
                reason: "REASON",
                domain: domain.clone().into(),
                limit: Some(limit.clone()),
                violations: violations
                    .iter()
                    .map(|(policy, quota)| Violation::of(policy.clone(), *quota))
                    .collect(),
                retry,
            },
        };
        let read = tonic_types::pb::Status::decode(&*status.details()).unwrap();
        prop_assert_eq!(read.code, i32::from(code.number()));
        prop_assert_eq!(&read.message, &message);
        // The code generated from Google's definitions writes equal bytes.
        prop_assert_eq!(read.encode_to_vec(), status.details());

        let received = received(&status);
        prop_assert_eq!(received.code(), Code::from(i32::from(code.number())));
        prop_assert_eq!(received.message(), &message);
        let details = received.get_error_details();
        let info = details.error_info().unwrap();
        prop_assert_eq!((&info.domain, &info.metadata["limit"]), (&domain, &limit));
        let found = details.quota_failure().map_or(&[][..], |failure| &failure.violations);
        prop_assert_eq!(found.len(), violations.len());
        for (found, (policy, quota)) in found.iter().zip(&violations) {
            prop_assert_eq!(&found.quota_id, policy);
            prop_assert_eq!(found.quota_value, i64::try_from(quota.unwrap_or(0)).unwrap());
        }
        let delay = details.retry_info().and_then(|info| info.retry_delay);
        prop_assert_eq!(delay.map(|delay| delay.as_micros()), wait.map(u128::from));
    }
}
