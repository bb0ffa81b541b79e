//! Any bytes as a state or an answer of a store. Decoding and evaluating them must not panic.
//!
//! | bytes | input |
//! | --- | --- |
//! | 1 | which limit |
//! | 1 | which operation |
//! | 1 | shape of the answer, and whether the clock is the store's own |
//! | 8 | cost, and the longest accepted wait |
//! | 8 | now, µs |
//! | … | the stored value |

#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sluicegate_core::for_stores::Now;
use sluicegate_core::record::{Entry, Record};
use sluicegate_core::value::{Write, step_values};
use sluicegate_core::{Cost, Costs, Error, Limit, MAX_EXACT, Operation, Request, RetryAfter, Span};
use sluicegate_redis::Value;
use sluicegate_redis::{Said, read_reply};

/// Limits of each policy alone, and of several together at the end.
const LIMITS: [&[&str]; 20] = [
    &["token_bucket 100/s burst 200"],
    &["token_bucket 0/s burst 3 charge_denied"],
    &["gcra 7/min burst 5 charge_denied"],
    &["leaky_bucket 1/d capacity 20"],
    &["shaper 5/s queue 100"],
    &["smooth 5/s burst 1s start empty"],
    &["warmup 3/s over 2us"],
    &["warmup 5/s over 10s charge_denied"],
    &["fixed_window 1000/h count_denied"],
    &["fixed_window 10/36525d aligned charge_denied"],
    &["fixed_window 10/month calendar Asia/Tokyo"],
    &["sliding_window 9007199254740991/s slices 10 charge_denied"],
    &["sliding_window 1000/h slices 60"],
    &["sliding_window 100/100s slices 100"],
    &["sliding_counter 1000/h"],
    &["sliding_counter 10/us charge_denied"],
    &["sliding_log 10/s and 1000/h charge_denied"],
    &["sliding_log 0/36525d"],
    &["token_bucket 3/s", "warmup 5/s over 10s shadow", "shaper 2/s queue 3"],
    &[
        "sliding_log 3/s",
        "sliding_window 6/h",
        "fixed_window 9/d calendar UTC",
        "gcra 1/s shadow charge_denied",
    ],
];

static MADE: LazyLock<Vec<Limit>> = LazyLock::new(|| {
    let limit = |specs: &&[&str]| Limit::new("fuzz", *specs).expect("a lawful limit");
    LIMITS.iter().map(limit).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((&[limit, operation, shape], rest)) = input.split_first_chunk() else { return };
    let Some((&cost, rest)) = rest.split_first_chunk() else { return };
    let Some((&now, value)) = rest.split_first_chunk() else { return };
    let limit = &MADE[usize::from(limit) % MADE.len()];
    let (cost, now) = (u64::from_be_bytes(cost), u64::from_be_bytes(now));
    let operation = operation_of(operation, cost);
    let cost = cost & MAX_EXACT;
    let each = vec![cost; limit.members().len()];
    let costs = Cost::new(cost).map_or(Costs::Each(&each), Costs::Same);
    let max_clock_back = (shape & 0x80 != 0).then_some(5_000_000);

    let request = Request::new(operation, b"k").costs(costs).with_receipt();
    let record = Record::decode(value);
    writes_itself(&record);
    let adopted = adopted(limit, &record);
    let micros = now & MAX_EXACT;
    let now_at = Now { micros, max_clock_back };
    // A store fails only for a request that it can't count.
    for stored in [&*adopted, value] {
        let _counted = judge(limit, &request, now_at, stored);
    }
    let reply = reply(shape & 0x7f, now, &adopted, value);
    if let Some(said) = Said::of(reply) {
        let said = said.to(usize::from(shape & 3));
        let _read = read_reply(limit, &request, max_clock_back, &said);
    }
});

fn operation_of(byte: u8, number: u64) -> Operation<'static> {
    match byte % 7 {
        0 => Operation::Check,
        1 => Operation::Peek,
        2 => Operation::Reserve { within: Span::from_micros(number >> 11).unwrap_or(Span::MAX) },
        3 => Operation::Take,
        4 => Operation::Charge,
        5 => Operation::Refund,
        _ => Operation::Reset,
    }
}

/// Checks that a decoded value, encoded and decoded again, is unchanged.
fn writes_itself(record: &Record<'_>) {
    let mut written = Vec::new();
    for entry in record.entries() {
        entry.write(&mut written);
    }
    let again = Record::decode(&written);
    assert!(!again.is_torn(), "{record:?}");
    assert_eq!(again.entries(), record.entries());
}

/// Writes the entries as if they were those of the limit's policies, in turn.
fn adopted(limit: &Limit, record: &Record<'_>) -> Vec<u8> {
    let mut value = Vec::new();
    let members = limit.members().iter().cycle();
    for (member, entry) in members.zip(record.entries()) {
        Entry { identity: member.identity(), ..entry.clone() }.write(&mut value);
    }
    value
}

/// Evaluates a request for a subject with this stored value.
fn judge(limit: &Limit, request: &Request<'_>, now: Now, stored: &[u8]) -> Result<(), Error> {
    let (step, writes) = step_values(limit, request, now, &[Some(stored)])?;
    let decision = &step.decision;
    let retry = decision.retry_after();
    assert_eq!(decision.is_allowed(), retry == RetryAfter::NotRefused, "{decision:?}");
    let newest = |entry: &Entry<'_>| entry.numbers().and_then(|numbers| numbers.first().copied());
    let record = Record::decode(stored);
    let latest = record.entries().iter().filter_map(newest).max().unwrap_or(0);
    // Windows of a calendar end with time itself.
    if now.micros.max(latest) < MAX_EXACT {
        assert_ne!(retry, RetryAfter::After(Duration::ZERO), "{decision:?}");
    }
    // The stored format can hold every value that is written.
    for write in &writes {
        if let Write::Set { value, .. } = write {
            assert!(!Record::decode(value).is_torn(), "{value:?}");
            let (again, _) = step_values(limit, &request.as_peek(), now, &[Some(value)])?;
            assert!(!again.decision.warnings().discarded, "{value:?}");
        }
    }
    Ok(())
}

/// Makes a reply of any shape, from the entries or from the unchanged bytes.
fn reply(shape: u8, now: u64, adopted: &[u8], value: &[u8]) -> Value {
    let own = adopted.to_vec();
    let number = |index: usize| {
        let bytes = value.iter().copied().cycle().skip(index).take(8);
        Value::Int(bytes.fold(0, |number, byte| number << 8 | i64::from(byte)))
    };
    let verdict = Value::Int(i64::from(shape / 16) - 2);
    let at = Value::Int(now.cast_signed());
    let noted = Value::Int(i64::from(shape & 1));
    let bytes = || Value::Bytes(value.to_vec().into());
    let tag = Value::Bytes(b"tag!"[..].into());
    // The script stamps its replies in this way: allowed, denied, or for several concurrent callers.
    let stamped = |sign: &str, rest: &[u8]| {
        let stamp = format!("tag!{} {}{sign}", now / 1_000_000, now % 1_000_000);
        Value::Bytes([stamp.as_bytes(), rest].concat().into())
    };
    match shape % 16 {
        0 if shape < 64 => stamped("*", value),
        0 => stamped("*", &[&[0, shape / 32], &own[..]].concat()),
        1 if shape < 64 => stamped("+", &own),
        1 => stamped("-", &own),
        2 if shape < 64 => bytes(),
        2 => stamped(if shape < 96 { "+" } else { "-" }, value),
        3 => number(0),
        4 | 5 => Value::Array(vec![tag, verdict, at, noted, Value::Bytes(own.into())]),
        6 | 7 => Value::Array(vec![
            tag,
            verdict,
            at,
            noted,
            Value::Bytes(own.into()),
            bytes(),
            bytes(),
            bytes(),
        ]),
        8 => Value::Array(vec![tag, verdict, at, noted, bytes(), bytes()]),
        9 => Value::Array(vec![tag, verdict, at, noted, Value::Nil, number(0), number(3)]),
        10 => Value::Array(vec![tag, verdict, at, number(1), number(0), number(2)]),
        11 => Value::Array(vec![tag, bytes(), at, verdict]),
        12 => Value::Array(vec![tag, number(0), number(1), number(2), bytes(), Value::Nil]),
        13 => Value::Nil,
        14 => Value::Status(value.to_vec().into()),
        _ => Value::Array(Vec::new()),
    }
}
