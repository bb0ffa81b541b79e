//! Answers that the script never gives result in an error, never in a panic.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluicegate_core::{Limit, MAX_EXACT, Operation, Request, StoreErrorKind};
use sluicegate_redis::{Reply, Said, Value, read_reply};

fn limit(spec: &str) -> Limit {
    Limit::new("test", vec![spec]).unwrap()
}

fn tag() -> Value {
    Value::Bytes(b"tag!"[..].into())
}

fn kind_of(spec: &str, answer: &Value) -> Option<StoreErrorKind> {
    let peek = Request::new(Operation::Peek, b"key");
    let said = Said::of(answer.clone());
    let read = said.map(|said| read_reply(&limit(spec), &peek, Some(5_000_000), &said));
    read.map_or(Some(StoreErrorKind::Unexpected), |read| {
        read.err().map(|error| error.as_store().unwrap().kind())
    })
}

#[test]
fn a_time_after_the_last_instant_is_nonsense() {
    let at = |now: u64| {
        let now = Value::Int(now.cast_signed());
        Value::Array(vec![tag(), Value::Int(1), now, Value::Int(0), Value::Nil])
    };
    for spec in ["fixed_window 10/month calendar Asia/Tokyo", "token_bucket 1/s", "sliding_log 1/s"]
    {
        for now in [MAX_EXACT + 1, u64::MAX >> 1, u64::MAX] {
            let kind = kind_of(spec, &at(now));
            assert_eq!(kind, Some(StoreErrorKind::Unexpected), "{spec} at {now}");
        }
    }
    assert_eq!(kind_of("token_bucket 1/s", &at(MAX_EXACT)), None);
}

/// Returns a bucket's state after three of five equal checks passed. One unit costs 1,000,000.
fn three_passed(deficit: u64) -> Value {
    let limit = limit("token_bucket 1/s burst 9");
    let mut bytes = b"tag!1 0*\0\x03".to_vec();
    bytes.push(1);
    bytes.extend(limit.members()[0].identity().to_bytes());
    bytes.push(20);
    for number in [1_000_000, deficit, 1_000_000] {
        bytes.extend(&number.to_be_bytes()[1..]);
    }
    Value::Bytes(bytes.into())
}

#[test]
fn a_reply_to_several_tells_each_what_was_left_when_its_turn_had_come() {
    let limit = limit("token_bucket 1/s burst 9");
    let read = |deficit, turn| {
        let said = Said::of(three_passed(deficit)).unwrap().to(turn);
        let reply = read_reply(&limit, &Request::check(b"key"), Some(5_000_000), &said);
        match reply {
            Ok(Reply::Decided(decision)) => Ok((decision.is_allowed(), decision.remaining())),
            Ok(reply) => panic!("{reply:?}"),
            Err(error) => Err(error.as_store().unwrap().kind()),
        }
    };
    let left: Vec<_> = (0..5).map(|turn| read(8_500_000, turn).unwrap()).collect();
    let left_by = |allowed, left| (allowed, Some(left));
    assert_eq!(left[..3], [left_by(true, 2), left_by(true, 1), left_by(true, 0)]);
    assert_eq!(left[3..], [left_by(false, 0); 2]);
    // The first is less than the three charged, the second more than a denial leaves.
    assert_eq!(read(2_000_000, 0), Err(StoreErrorKind::Unexpected));
    assert_eq!(read(8_000_000, 3), Err(StoreErrorKind::Unexpected));
}

#[test]
fn what_has_no_stamp_is_nonsense() {
    for bytes in ["", "tag!", "tag!1 0", "tag!1 0?", "tag!1 0*", "tag!99999999999 0+"] {
        let kind = kind_of("token_bucket 1/s", &Value::Bytes(bytes.into()));
        assert_eq!(kind, Some(StoreErrorKind::Unexpected), "{bytes}");
    }
    assert_eq!(kind_of("token_bucket 1/s", &Value::Int(1)), Some(StoreErrorKind::Unexpected));
}
