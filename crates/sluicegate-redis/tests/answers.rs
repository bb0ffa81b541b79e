//! What the store makes of answers that no script of ours gives: an error, never a panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sluicegate_core::{Limit, MAX_EXACT, Operation, Request, StoreErrorKind};
use sluicegate_redis::Value;
use sluicegate_redis::read_reply;

fn limit(spec: &str) -> Limit {
    Limit::new("test".parse().unwrap(), vec![spec.parse().unwrap()]).unwrap()
}

fn kind_of(spec: &str, answer: &Value) -> Option<StoreErrorKind> {
    let peek = Request::new(Operation::Peek, b"key");
    let read = read_reply(&limit(spec), &peek, Some(5_000_000), answer);
    read.err().map(|error| error.as_store().unwrap().kind())
}

#[test]
fn a_time_after_the_last_instant_is_nonsense() {
    let at = |now: u64| {
        let now = Value::Int(now.cast_signed());
        Value::Array(vec![Value::Int(1), now, Value::Int(0), Value::Nil])
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

#[test]
fn a_deficit_that_no_state_holds_is_nonsense() {
    for deficit in [-1, (1 << 53), i64::MAX] {
        let kind = kind_of("token_bucket 1/s", &Value::Int(deficit));
        assert_eq!(kind, Some(StoreErrorKind::Unexpected), "{deficit}");
    }
    assert_eq!(kind_of("token_bucket 1/s", &Value::Int((1 << 53) - 1)), None);
}
