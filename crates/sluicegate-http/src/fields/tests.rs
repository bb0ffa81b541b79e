use sluicegate_core::Cost;
use sluicegate_core::for_stores::DecisionForStores as _;

use super::*;
use crate::test_limit::{TestLimit, limit};

fn pairs(fields: &LimitFields, decision: &Decision) -> Vec<(&'static str, String)> {
    fields.of(decision).pairs()
}

/// Returns the value of one field.
fn value(fields: DecisionFields<'_>, name: &str) -> Option<String> {
    fields.pairs().into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

fn draft_11(limit: &Limit) -> LimitFields {
    LimitFields::new(limit, FieldFormat::Draft11)
}

fn owned(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    pairs.iter().map(|&(name, value)| (name, value.to_owned())).collect()
}

#[test]
fn every_algorithm_has_a_quota_and_a_window() {
    for (spec, expected) in [
        ("token_bucket 10/s burst 20", Some("\"token_bucket\";q=20;w=2")),
        ("gcra 10/s burst 25 as b", Some("\"b\";q=25;w=3")),
        ("gcra 10/s burst 1", Some("\"gcra\";q=1")),
        ("leaky_bucket 5/s capacity 20", Some("\"leaky_bucket\";q=20;w=4")),
        ("shaper 5/s queue 9", Some("\"shaper\";q=10;w=2")),
        ("smooth 5/s", Some("\"smooth\";q=5;w=1")),
        ("warmup 5/500ms over 10s", Some("\"warmup\";q=5")),
        ("fixed_window 1000/h", Some("\"fixed_window\";q=1000;w=3600")),
        ("fixed_window 9/month calendar UTC", Some("\"fixed_window\";q=9;w=2678400")),
        ("sliding_window 1000/h slices 60", Some("\"sliding_window\";q=1000;w=3600")),
        ("sliding_counter 7/1500ms", Some("\"sliding_counter\";q=7;w=2")),
        ("sliding_log 10/s and 1000/h", Some("\"sliding_log\";q=10;w=1")),
        ("token_bucket 0/s", Some("\"token_bucket\";q=0")),
        ("fixed_window 9007199254740991/d", Some("\"fixed_window\";q=999999999999999;w=86400")),
        ("gcra 1/s burst 2 shadow", None),
    ] {
        let test = TestLimit::new(&[spec]);
        let fields = draft_11(&test.limit);
        let found = value(fields.of(&test.check(1)), "ratelimit-policy");
        assert_eq!(found.as_deref(), expected, "{spec}");
    }
}

#[test]
fn an_allowed_request_says_what_is_left_until_when() {
    let test = TestLimit::new(&["token_bucket 10/s burst 20", "fixed_window 100/d", "smooth 5/s"]);
    let decision = test.check(1);
    let fields = draft_11(&test.limit).of(&decision).pairs();
    assert_eq!(
        fields,
        owned(&[
            (
                "ratelimit-policy",
                "\"token_bucket\";q=20;w=2, \"fixed_window\";q=100;w=86400, \"smooth\";q=5;w=1"
            ),
            (
                "ratelimit",
                "\"token_bucket\";r=19;t=1, \"fixed_window\";r=99;t=86400, \"smooth\";r=0;t=2"
            ),
        ])
    );
}

#[test]
fn a_window_of_a_denial_is_its_policy_s_own_whatever_retry_after_says() {
    let test = TestLimit::new(&["token_bucket 1/s burst 3", "fixed_window 100/d"]);
    let fields = draft_11(&test.limit);
    assert!(test.check(3).is_allowed());
    let decision = test.check(1);
    assert_eq!(retry_after(&decision), Some(1));
    let said = "\"token_bucket\";r=0;t=1, \"fixed_window\";r=97;t=86400";
    assert_eq!(value(fields.of(&decision), "ratelimit").as_deref(), Some(said));
    assert_eq!(value(fields.of(&decision), "retry-after").as_deref(), Some("1"));
    // A reset is when all is as new, and not when the next request passes.
    for format in [FieldFormat::Draft03, FieldFormat::XRateLimit, FieldFormat::XRateLimitUnix] {
        let fields = LimitFields::new(&test.limit, format);
        let pairs = fields.of(&decision).at(Timestamp::EPOCH).pairs();
        let reset = pairs.iter().find(|(name, _)| name.ends_with("-reset")).unwrap();
        assert_eq!(reset.1, "3", "{format}");
    }
}

#[test]
fn what_can_never_pass_is_not_told_when_to_come_back() {
    let test = TestLimit::new(&["token_bucket 1/s burst 3", "fixed_window 100/d"]);
    let never = test.check(4);
    assert!(never.is_denied());
    let fields = draft_11(&test.limit);
    let said = "\"token_bucket\";r=3, \"fixed_window\";r=100;t=0";
    assert_eq!(value(fields.of(&never), "ratelimit").as_deref(), Some(said));
    assert_eq!(value(fields.of(&never), "retry-after"), None);
    let legacy = LimitFields::new(&test.limit, FieldFormat::XRateLimit);
    assert_eq!(
        pairs(&legacy, &never),
        owned(&[("x-ratelimit-limit", "3"), ("x-ratelimit-remaining", "3")])
    );
}

#[test]
fn a_wait_of_less_than_a_second_is_told_as_one() {
    let test = TestLimit::new(&["token_bucket 1000/s burst 1"]);
    assert!(test.check(1).is_allowed());
    assert_eq!(retry_after(&test.check(1)), Some(1));
}

#[test]
fn a_fallback_knows_no_numbers_and_a_bypass_has_no_fields() {
    for format in [FieldFormat::Draft11, FieldFormat::DraftNext] {
        let limit = limit("l", &["gcra 1/s"]);
        let fields = LimitFields::new(&limit, format);
        let policies = owned(&[("ratelimit-policy", "\"gcra\";q=1;w=1")]);
        assert_eq!(pairs(&fields, &Decision::fallback(&limit, false)), policies);
        assert_eq!(pairs(&fields, &Decision::bypass(false)), []);
    }
    for format in [FieldFormat::Draft03, FieldFormat::XRateLimit, FieldFormat::None] {
        let limit = limit("l", &["gcra 1/s"]);
        let fields = LimitFields::new(&limit, format);
        assert_eq!(pairs(&fields, &Decision::fallback(&limit, false)), [], "{format}");
    }
}

#[test]
fn a_shadow_is_shown_in_no_format() {
    let policies = ["gcra 1/s burst 1 shadow as secret", "fixed_window 9/h as open"];
    let test = TestLimit::new(&policies);
    assert!(test.check(1).is_allowed());
    let decision = test.check(1);
    for format in [
        FieldFormat::None,
        FieldFormat::Draft11,
        FieldFormat::DraftNext,
        FieldFormat::Draft03,
        FieldFormat::XRateLimit,
        FieldFormat::XRateLimitUnix,
    ] {
        let partition = Partition::of(&"user".parse().unwrap());
        let fields = LimitFields::new(&test.limit, format).with_partitions(&[partition]);
        let shown = format!("{:?}", fields.of(&decision).at(Timestamp::EPOCH).pairs());
        assert!(!shown.contains("secret"), "{format}: {shown}");
        let left = shown.contains('7');
        assert_eq!(left, format != FieldFormat::None, "{format}: {shown}");
    }
}

#[test]
fn the_next_text_says_what_it_cost_and_what_divides_the_quota() {
    let test = TestLimit::new(&["token_bucket 10/s burst 20 cost 2", "fixed_window 100/d"]);
    let partition = Partition::of(&"user+method".parse().unwrap());
    let fields =
        LimitFields::new(&test.limit, FieldFormat::DraftNext).with_partitions(&[partition]);
    let decision = test.check_each(&[3, 0]);
    let each = fields.of(&decision).costs(Costs::Each(&[3, 0]));
    assert_eq!(
        each.pairs(),
        owned(&[
            ("ratelimit-policy", "\"token_bucket\";q=20;w=2, \"fixed_window\";q=100;w=86400"),
            ("ratelimit", "\"token_bucket\";a=17;w=1;c=3, \"fixed_window\";a=100;w=0;c=0"),
            (
                "ratelimit-partition",
                "\"token_bucket\";user_id;method, \"fixed_window\";user_id;method"
            ),
        ])
    );
    for (costs, said) in [(Costs::Own, ["c=2", "c=1"]), (Costs::Same(Cost::ONE), ["c=1", "c=1"])] {
        let value = value(fields.of(&decision).costs(costs), "ratelimit").unwrap();
        let found: Vec<&str> = value.split(';').filter(|part| part.starts_with("c=")).collect();
        let found = found.iter().map(|part| part.split(',').next().unwrap());
        assert_eq!(found.collect::<Vec<_>>(), said, "{costs:?}");
    }
    let silent = value(fields.of(&decision), "ratelimit").unwrap();
    assert!(!silent.contains("c="), "{silent}");
}

#[test]
fn policies_of_one_name_are_told_apart_by_their_limits() {
    let (a, b) = (limit("a", &["gcra 5/s"]), limit("b", &["gcra 7/s", "fixed_window 9/h"]));
    let test = TestLimit::of(Limit::together([a, b]).unwrap());
    let of = |key: &str| Partition::of(&key.parse().unwrap());
    let fields = LimitFields::new(&test.limit, FieldFormat::DraftNext)
        .with_partitions(&[of("user"), of("'all'")]);
    let decision = test.check(1);
    assert_eq!(
        pairs(&fields, &decision),
        owned(&[
            (
                "ratelimit-policy",
                "\"a/gcra\";q=5;w=1, \"b/gcra\";q=7;w=1, \"fixed_window\";q=9;w=3600"
            ),
            ("ratelimit", "\"a/gcra\";a=4;w=1, \"b/gcra\";a=6;w=1, \"fixed_window\";a=8;w=3600"),
            ("ratelimit-partition", "\"a/gcra\";user_id"),
        ])
    );
}

#[test]
fn older_formats_show_the_policy_that_is_closest_to_its_limit() {
    let test = TestLimit::new(&["token_bucket 1/s burst 10", "fixed_window 12/h"]);
    let x = LimitFields::new(&test.limit, FieldFormat::XRateLimit);
    let three = |limit, left, reset| {
        owned(&[
            ("x-ratelimit-limit", limit),
            ("x-ratelimit-reset", reset),
            ("x-ratelimit-remaining", left),
        ])
    };
    assert_eq!(pairs(&x, &test.check(6)), three("10", "4", "6"));
    test.advance(Span::from_millis(5_000).unwrap());
    assert_eq!(pairs(&x, &test.check(1)), three("12", "5", "3595"));
    let denied = test.check(9);
    let mut expected = three("12", "5", "3595");
    expected.push(("retry-after", "3595".to_owned()));
    assert_eq!(pairs(&x, &denied), expected);

    let draft = LimitFields::new(&test.limit, FieldFormat::Draft03);
    assert_eq!(
        pairs(&draft, &denied),
        owned(&[
            (
                "ratelimit-limit",
                "12, 10;w=10;name=\"token_bucket\", 12;w=3600;name=\"fixed_window\""
            ),
            ("ratelimit-reset", "3595"),
            ("ratelimit-remaining", "5"),
            ("retry-after", "3595"),
        ])
    );
}

#[test]
fn a_unix_reset_needs_the_time() {
    let test = TestLimit::new(&["fixed_window 12/h"]);
    let fields = LimitFields::new(&test.limit, FieldFormat::XRateLimitUnix);
    let decision = test.check(1);
    let now = Timestamp::from_micros(1_700_000_000_000_001).unwrap();
    let reset = |fields| value(fields, "x-ratelimit-reset");
    assert_eq!(reset(fields.of(&decision).at(now)).as_deref(), Some("1700003600"));
    assert_eq!(reset(fields.of(&decision)), None);
}

/// Responses arrive some milliseconds after the decision. This must not add a second to the reset.
#[test]
fn a_unix_reset_at_a_full_hour_is_not_a_second_late() {
    let test = TestLimit::new(&["fixed_window 2/h aligned"]);
    let fields = LimitFields::new(&test.limit, FieldFormat::XRateLimitUnix);
    test.advance(Span::from_micros(1_700_000_000_000_000 - test.now().as_micros()).unwrap());
    for _ in 0..3 {
        test.advance(Span::from_millis(333).unwrap());
        let decision = test.check(1);
        let now = test.now().as_micros();
        for response in [0, 1, 999, 20_000, 400_000] {
            let response = Timestamp::from_micros(now + response).unwrap();
            let reset = value(fields.of(&decision).at(response), "x-ratelimit-reset");
            assert_eq!(reset.as_deref(), Some("1700002800"), "{response:?}");
        }
    }
}

/// A bucket is full at any instant: before the second that is named it isn't.
#[test]
fn a_unix_reset_is_rounded_up_from_the_time_of_the_decision() {
    let test = TestLimit::new(&["token_bucket 1/s burst 5"]);
    let fields = LimitFields::new(&test.limit, FieldFormat::XRateLimitUnix);
    test.advance(Span::from_micros(1_700_000_000_000_001 - test.now().as_micros()).unwrap());
    let decision = test.check(1);
    assert_eq!(decision.evaluated_at(), Some(test.now()));
    let reset = value(fields.of(&decision).at(test.now()), "x-ratelimit-reset");
    assert_eq!(reset.as_deref(), Some("1700000002"));
}

#[test]
fn several_limits_share_one_response() {
    let (day, second) =
        (TestLimit::new(&["fixed_window 9/d as day"]), TestLimit::new(&["gcra 5/s as second"]));
    let decisions = [day.check(1), second.check(1)];
    let write = |format, order: [usize; 2]| {
        let mut headers = HeaderMap::new();
        let fields = [&day, &second].map(|test| LimitFields::new(&test.limit, format));
        for index in order {
            fields[index].of(&decisions[index]).write(&mut headers);
        }
        headers
    };
    let headers = write(FieldFormat::Draft11, [0, 1]);
    let lines: Vec<_> = headers.get_all("ratelimit").iter().collect();
    assert_eq!(lines, ["\"day\";r=8;t=86400", "\"second\";r=4;t=1"]);
    for order in [[0, 1], [1, 0]] {
        let headers = write(FieldFormat::XRateLimit, order);
        let of = |name: &str| headers.get(name).unwrap().clone();
        assert_eq!(of("x-ratelimit-limit"), "5");
        assert_eq!(of("x-ratelimit-remaining"), "4");
        assert_eq!(of("x-ratelimit-reset"), "1");
    }
}

#[test]
fn an_outer_limit_tells_its_own_windows_whatever_an_inner_one_says_of_retrying() {
    let inner = TestLimit::new(&["fixed_window 1/5s as inner"]);
    let outer = TestLimit::new(&["gcra 9/s burst 9 as t", "fixed_window 9/h as outer"]);
    assert!(inner.check(1).is_allowed());
    let (denied, allowed) = (inner.check(1), outer.check(1));
    let write = |format| {
        let mut headers = HeaderMap::new();
        LimitFields::new(&inner.limit, format).of(&denied).write(&mut headers);
        let fields = LimitFields::new(&outer.limit, format);
        fields.of(&allowed).costs(Costs::Own).write(&mut headers);
        headers
    };
    for (format, told) in [
        (FieldFormat::Draft11, ["\"inner\";r=0;t=5", "\"t\";r=8;t=1, \"outer\";r=8;t=3600"]),
        (
            FieldFormat::DraftNext,
            ["\"inner\";a=0;w=5", "\"t\";a=8;w=1;c=1, \"outer\";a=8;w=3600;c=1"],
        ),
    ] {
        let headers = write(format);
        let lines: Vec<_> = headers.get_all("ratelimit").iter().collect();
        assert_eq!(lines, told);
        assert_eq!(headers["retry-after"], "5");
    }
    // The same for single numbers: the outer limit has as little left here.
    let all = outer.check(8);
    let mut headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from(5))]);
    LimitFields::new(&outer.limit, FieldFormat::Draft03).of(&all).write(&mut headers);
    assert_eq!(
        (&headers["ratelimit-reset"], &headers["retry-after"]),
        (&"3600".parse().unwrap(), &"5".parse().unwrap())
    );
}

#[test]
fn the_fields_are_shown_to_scripts_of_other_origins_once() {
    let fields = draft_11(&limit("l", &["gcra 1/s"]));
    let mut headers = HeaderMap::new();
    headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("ETag"));
    fields.expose(&mut headers);
    fields.expose(&mut headers);
    let lines: Vec<_> = headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter().collect();
    assert_eq!(lines, ["ETag", "RateLimit, RateLimit-Policy, Retry-After"]);
}

#[test]
fn a_redirection_is_followed_at_once() {
    let statuses = [(200, true), (301, false), (304, true), (307, false), (404, true), (429, true)];
    for (status, belong) in statuses {
        assert_eq!(LimitFields::apply_to(StatusCode::from_u16(status).unwrap()), belong);
    }
}
