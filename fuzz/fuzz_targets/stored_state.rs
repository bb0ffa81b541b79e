//! Any bytes as what a store holds or answers: decoded without a panic, judged without a panic.
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

use libfuzzer_sys::fuzz_target;
use redis::Value;
use sluicegate_core::kernel::{Rule, Times, log};
use sluicegate_core::packed::{self, Entry, State};
use sluicegate_core::{
    Cost, Costs, Limit, MAX_EXACT, Operation, Policy, RetryAfter, Span, Standing, StoreError,
    evaluate,
};
use sluicegate_redis::read_answer;

/// Each alone, and the last ones together.
const LIMITS: [&[&str]; 20] = [
    &["token_bucket 100/s burst 200"],
    &["token_bucket 0/s burst 3 charge_denied"],
    &["gcra 7/min burst 5 charge_denied"],
    &["leaky_bucket 1/d capacity 20"],
    &["shaper 5/s queue 100"],
    &["smooth 5/s burst 1s start empty"],
    &["warmup 3/s over 2us"],
    &["warmup 5/s over 10s charge_denied"],
    &["fixed_window 1000/h"],
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
    let limit = |specs: &&[&str]| {
        let policies =
            specs.iter().map(|spec| spec.parse::<Policy>().expect("a lawful spec")).collect();
        Limit::new("fuzz".parse().expect("a lawful name"), policies).expect("a lawful limit")
    };
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

    let entries = decodes_to_itself(value);
    let states = adopted(limit, &entries);
    for entry in &states {
        let times = Times { now: now & MAX_EXACT, max_clock_back };
        // A store fails for what it can't count, and never otherwise.
        let _counted = judge(limit, entry, times, operation, costs);
    }
    let answer = answer(shape & 0x7f, now, &states, value);
    let _read = read_answer(limit, operation, costs, max_clock_back, &answer);
});

fn operation_of(byte: u8, number: u64) -> Operation {
    match byte % 7 {
        0 => Operation::Check,
        1 => Operation::Peek,
        2 => Operation::Reserve { within: Span::from_micros(number >> 11).unwrap_or(Span::MAX) },
        3 => Operation::TakeUpTo,
        4 => Operation::Charge,
        5 => Operation::Refund,
        _ => Operation::Reset,
    }
}

/// What is decoded from `value`, written and decoded again, is the same.
fn decodes_to_itself(value: &[u8]) -> Vec<Entry> {
    let decoded = packed::decode(value);
    let mut written = Vec::new();
    for entry in &decoded.entries {
        packed::encode_entry(entry, &mut written);
    }
    let again = packed::decode(&written);
    assert!(!again.discarded, "{:?}", decoded.entries);
    assert_eq!(again.entries, decoded.entries);
    decoded.entries
}

/// The entries as if they were those of the limit's policies, in turn.
fn adopted(limit: &Limit, entries: &[Entry]) -> Vec<Entry> {
    let members = limit.members().iter().cycle();
    let adopt = |(member, entry): (&sluicegate_core::Member, &Entry)| Entry {
        identity: member.identity(),
        ..entry.clone()
    };
    members.zip(entries).map(adopt).collect()
}

/// Judges a request where every policy finds this state, if it is of its kind.
fn judge(
    limit: &Limit,
    entry: &Entry,
    times: Times,
    operation: Operation,
    costs: Costs<'_>,
) -> Result<(), StoreError> {
    let mut logs: Vec<log::State> =
        limit
            .members()
            .iter()
            .map(|_| {
                if let State::Ring(log) = &entry.state {
                    log.clone()
                } else {
                    log::State::default()
                }
            })
            .collect();
    let mut standings = Vec::new();
    for (member, log) in limit.members().iter().zip(&mut logs) {
        let rule = member.policy().rule();
        standings.push(match (Standing::of(rule, Some(&entry.state), times)?, rule) {
            (None, Rule::Log(rule)) => Standing::of_log(rule, log, times).0,
            (standing, _) => standing.expect("only a log stands apart").0,
        });
    }
    let evaluation = evaluate(limit, &mut standings, operation, costs)?;
    let decision = &evaluation.decision;
    let retry = decision.retry_after();
    assert_eq!(decision.is_allowed(), retry == RetryAfter::NotRefused, "{decision:?}");
    // Windows of a calendar end with time itself.
    if times.now.max(entry.state.newest()) < MAX_EXACT {
        assert_ne!(retry, RetryAfter::After(Span::ZERO), "{decision:?}");
    }

    // What is to be kept is what the stored format can hold.
    for (index, (member, standing)) in limit.members().iter().zip(&standings).enumerate() {
        if evaluation.changed & 1 << index == 0 {
            continue;
        }
        let state = match (member.policy().rule(), standing) {
            (Rule::Bucket(rule), Standing::Bucket(standing)) => State::Bucket(rule.state(standing)),
            (Rule::Counter(rule), Standing::Counter(standing)) => {
                State::Counter(rule.state(standing))
            }
            (Rule::WarmUp(rule), Standing::WarmUp(standing)) => State::WarmUp(rule.state(standing)),
            (Rule::Window(rule), Standing::Window(standing)) => State::Window(rule.state(standing)),
            (_, Standing::Log { state, .. }) => State::Ring((**state).clone()),
            _ => continue,
        };
        let kept = Entry { identity: member.identity(), retention: entry.retention, state };
        let mut written = Vec::new();
        packed::encode_entry(&kept, &mut written);
        let read = packed::decode(&written);
        assert_eq!((read.entries, read.discarded), (vec![kept], false));
    }
    Ok(())
}

/// An answer of any shape, made from the entries, or from the bytes as they are.
fn answer(shape: u8, now: u64, states: &[Entry], value: &[u8]) -> Value {
    let mut own = Vec::new();
    for entry in states {
        packed::encode_entry(entry, &mut own);
    }
    let number = |index: usize| {
        let bytes = value.iter().copied().cycle().skip(index).take(8);
        Value::Int(bytes.fold(0, |number, byte| number << 8 | i64::from(byte)))
    };
    let verdict = Value::Int(i64::from(shape / 16) - 2);
    let at = Value::Int(now.cast_signed());
    let noted = Value::Int(i64::from(shape & 1));
    let bytes = || Value::BulkString(value.to_vec());
    match shape % 16 {
        0 | 1 => Value::BulkString(own),
        2 => bytes(),
        3 => number(0),
        4 | 5 => Value::Array(vec![verdict, at, noted, Value::BulkString(own)]),
        6 | 7 => Value::Array(vec![
            verdict,
            at,
            noted,
            Value::BulkString(own),
            bytes(),
            bytes(),
            bytes(),
        ]),
        8 => Value::Array(vec![verdict, at, noted, bytes(), bytes()]),
        9 => Value::Array(vec![verdict, at, noted, Value::Nil, number(0), number(3)]),
        10 => Value::Array(vec![verdict, at, number(1), number(0), number(2)]),
        11 => Value::Array(vec![bytes(), at, verdict]),
        12 => Value::Array(vec![number(0), number(1), number(2), bytes(), Value::Nil]),
        13 => Value::Nil,
        14 => Value::SimpleString(String::from_utf8_lossy(value).into_owned()),
        _ => Value::Array(Vec::new()),
    }
}
