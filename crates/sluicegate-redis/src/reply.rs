//! From what a script answered to a decision.

use std::slice;

use redis::Value;
use sluicegate_core::kernel::{Ask, Rule, Times, bucket, log};
use sluicegate_core::packed::{self, State};
use sluicegate_core::{
    Costs, Decision, Limit, MAX_EXACT, Member, Notes, Operation, Reading, SliceCounts, Standing,
    StoreError, StoreErrorKind, admitted, evaluate,
};
use smallvec::SmallVec;

use crate::program::log_kind;
use crate::receipt::{Change, Receipt};

/// What a script's answer came to.
#[derive(Debug)]
pub enum Answer {
    /// A decision.
    Decided(Decision),
    /// An admitted reservation.
    Reserved(Decision, Receipt),
    /// The boundaries that were sent for a calendar policy don't hold its time of judgement;
    /// nothing was charged.
    AskAgain {
        /// The policy's index in its limit.
        policy: usize,
        /// The time of judgement, in µs.
        at: u64,
    },
}

/// Reads a script's answer.
///
/// # Errors
/// [`StoreErrorKind::Overflow`] when the script refused a number that a state can't hold;
/// [`StoreErrorKind::Unexpected`] for an answer that makes no sense.
pub fn read_answer(
    limit: &Limit,
    operation: Operation,
    costs: Costs<'_>,
    max_clock_back: Option<u64>,
    answer: &Value,
) -> Result<Answer, StoreError> {
    match answer {
        Value::BulkString(states) => read_states(limit, costs, states).map(Answer::Decided),
        Value::Int(deficit) => read_deficit(limit, operation, costs, *deficit).map(Answer::Decided),
        Value::Array(items) => read_verdict(limit, operation, costs, max_clock_back, items),
        other => Err(nonsense(&format!("a reply of another type ({other:?})"))),
    }
}

/// The express lane admitted: the answer is the states it has written, rings cut to their last two
/// slices.
fn read_states(limit: &Limit, costs: Costs<'_>, states: &[u8]) -> Result<Decision, StoreError> {
    let decoded = packed::decode(states);
    let mut notes = Notes { discarded: decoded.discarded, ..Notes::default() };
    let mut logs = take_logs(limit, slice::from_ref(&decoded));
    let mut standings = Vec::with_capacity(limit.members().len());
    let mut remaining_logs = logs.iter_mut();
    for member in limit.members() {
        let rule = member.policy().rule();
        let state = decoded.state(member.identity(), kind_of(rule));
        // Just written: the newest time is the time of judgement.
        let times = Times { now: state.map_or(0, State::newest), max_clock_back: None };
        let standing = match (Standing::of(rule, state, times)?, rule) {
            (Some((standing, _)), _) => standing,
            (None, Rule::Log(rule)) if log_kind(rule) == packed::kind::LOG_HEAD => {
                Standing::Read(admitted_reading(rule, state))
            }
            (None, Rule::Log(rule)) => {
                let log = remaining_logs.next().ok_or_else(|| nonsense("a log too few"))?;
                let times = Times { now: log.newest, max_clock_back: None };
                Standing::of_log(rule, log, times).0
            }
            (None, _) => return Err(nonsense("a state of an unknown kernel")),
        };
        notes.discarded |= state.is_none();
        standings.push(standing);
    }
    Ok(admitted(limit, &mut standings, costs).with_notes(notes))
}

/// The only policy, a bucket, denied: the answer is its deficit at the time of judgement, from
/// which everything else follows.
fn read_deficit(
    limit: &Limit,
    operation: Operation,
    costs: Costs<'_>,
    deficit: i64,
) -> Result<Decision, StoreError> {
    let ([member], Some(deficit)) = (limit.members(), exact(deficit)) else {
        return Err(nonsense("a number"));
    };
    let Rule::Bucket(rule) = member.policy().rule() else {
        return Err(nonsense("a number"));
    };
    let state = State::Bucket(bucket::State { newest: 0, deficit, unit: rule.unit() });
    let times = Times { now: 0, max_clock_back: None };
    let Some((standing, _)) = Standing::of(member.policy().rule(), Some(&state), times)? else {
        return Err(nonsense("a number"));
    };
    let decision = evaluate(limit, &mut [standing], operation, costs)?.decision;
    if decision.is_allowed() {
        Err(nonsense("another verdict than the kernels'"))
    } else {
        Ok(decision)
    }
}

/// The general part answered: verdict, time, the states it saw, and readings of logs.
fn read_verdict(
    limit: &Limit,
    operation: Operation,
    costs: Costs<'_>,
    max_clock_back: Option<u64>,
    items: &[Value],
) -> Result<Answer, StoreError> {
    let [Value::Int(verdict), Value::Int(now), Value::Int(noted), rest @ ..] = items else {
        return Err(nonsense("an array of another shape"));
    };
    let Some((states, readings)) = rest.split_at_checked(limit.parts().len()) else {
        return Err(nonsense("the states of too few limits"));
    };
    let now = exact(*now).ok_or_else(|| nonsense("a time that no clock shows"))?;
    match verdict {
        -1 => return Err(sluicegate_core::kernel::Overflow.into()),
        -2 => return read_ask_again(readings),
        _ => {}
    }
    let decoded: SmallVec<[packed::Decoded; 1]> =
        states.iter().map(|states| packed::decode(bytes(states).unwrap_or_default())).collect();
    let discarded = *noted != 0 || decoded.iter().any(|decoded| decoded.discarded);
    let mut notes = Notes { discarded, ..Notes::default() };
    let times = Times { now, max_clock_back };
    let mut logs = take_logs(limit, &decoded);
    let mut remaining_logs = logs.iter_mut();
    let mut rest = readings.iter();
    let mut standings = Vec::with_capacity(limit.members().len());
    for member in limit.members() {
        let rule = member.policy().rule();
        let state = decoded[member.part()].state(member.identity(), kind_of(rule));
        let (standing, restamped) = match (Standing::of(rule, state, times)?, rule) {
            (Some(standing), _) => standing,
            (None, Rule::Log(rule)) if log_kind(rule) == packed::kind::RING => {
                let log = remaining_logs.next().ok_or_else(|| nonsense("a log too few"))?;
                Standing::of_log(rule, log, times)
            }
            (None, _) => {
                let newest = state.map_or(0, State::newest);
                let restamped =
                    max_clock_back.is_some_and(|bound| newest > now.saturating_add(bound));
                (Standing::Read(read_reading(rest.next())?), restamped)
            }
        };
        notes.restamped |= restamped;
        standings.push(standing);
    }
    let evaluation = evaluate(limit, &mut standings, operation, costs)?;
    if evaluation.decision.is_allowed() != (*verdict == 1) {
        return Err(nonsense("another verdict than the kernels'"));
    }
    let decision = evaluation.decision.with_notes(notes);
    if matches!(operation, Operation::Reserve { .. }) && decision.is_allowed() {
        let changes = states.iter().zip(rest).enumerate().filter_map(|(part, (before, after))| {
            let (before, after) = (bytes(before), bytes(after)?);
            // What was written as it was has nothing to give back.
            (before != Some(after)).then(|| Change {
                part,
                before: before.map(<[u8]>::to_vec),
                after: after.to_vec(),
            })
        });
        return Ok(Answer::Reserved(
            decision,
            Receipt { changes: changes.collect(), ..Receipt::default() },
        ));
    }
    Ok(Answer::Decided(decision))
}

/// Reads the slices of a ring from the general part's answer: time, head and entries.
///
/// # Errors
/// Like [`read_answer`].
pub(crate) fn read_slices(
    limit: &Limit,
    max_clock_back: Option<u64>,
    answer: &Value,
) -> Result<SliceCounts, StoreError> {
    let rule = SliceCounts::ring(limit)?;
    let Value::Array(items) = answer else {
        return Err(nonsense("a reply of another type"));
    };
    let [Value::Int(_), Value::Int(now), Value::Int(_), states, entries @ ..] = items.as_slice()
    else {
        return Err(nonsense("an array of another shape"));
    };
    let now = exact(*now).ok_or_else(|| nonsense("a time that no clock shows"))?;
    let times = Times { now, max_clock_back };
    let decoded = packed::decode(bytes(states).unwrap_or_default());
    let identity = limit.members()[0].identity();
    let mut state = match decoded.state(identity, log_kind(rule)) {
        Some(State::Ring(state)) => state.clone(),
        Some(State::LogHead(head)) => {
            let block = entries.first().and_then(bytes).unwrap_or_default();
            packed::decode_entries(head.newest, head.base, block)
                .ok_or_else(|| nonsense("entries that no ring has"))?
        }
        _ => log::State::default(),
    };
    if rule.needs_restamp(&state, times) {
        rule.restamp(&mut state, now);
    }
    let at = rule.at(&state, times);
    Ok(SliceCounts::of(rule, &state, at))
}

fn bytes(value: &Value) -> Option<&[u8]> {
    if let Value::BulkString(bytes) = value { Some(bytes) } else { None }
}

fn read_ask_again(items: &[Value]) -> Result<Answer, StoreError> {
    if let [Value::Int(policy), Value::Int(at)] = items
        && let (Ok(policy), Ok(at)) = (usize::try_from(*policy), u64::try_from(*at))
    {
        return Ok(Answer::AskAgain { policy, at });
    }
    Err(nonsense("an array of another shape"))
}

/// The states of the rings, in the order of their policies; a fresh one where there is none.
fn take_logs(limit: &Limit, decoded: &[packed::Decoded]) -> Vec<log::State> {
    let is_ring = |member: &&Member| matches!(member.policy().rule(), Rule::Log(rule) if log_kind(rule) == packed::kind::RING);
    let rings = limit.members().iter().filter(is_ring);
    rings
        .map(|member| match decoded[member.part()].state(member.identity(), packed::kind::RING) {
            Some(State::Ring(state)) => state.clone(),
            _ => log::State::default(),
        })
        .collect()
}

fn kind_of(rule: &Rule) -> u8 {
    match rule {
        Rule::Bucket(_) => packed::kind::BUCKET,
        Rule::Counter(_) => packed::kind::COUNTER,
        Rule::Log(log) => log_kind(log),
        Rule::WarmUp(_) => packed::kind::WARM_UP,
        Rule::Window(_) => packed::kind::WINDOW,
        _ => 0,
    }
}

/// What the head of an exact log of one strategy says when its newest entry was just made.
fn admitted_reading(rule: &log::Log, state: Option<&State>) -> Reading {
    let total = match state {
        Some(State::LogHead(head)) => head.total - head.base,
        _ => 0,
    };
    let remaining = rule.limit().saturating_sub(total);
    Reading {
        ask: Ask::Pass { wait: 0 },
        violated: 0,
        remaining_before: remaining,
        remaining,
        reset_after: rule.horizon(),
        total,
        current: 0,
    }
}

/// "Never", in seven bytes and as a double.
const NEVER: u64 = 1 << 55;

fn read_reading(value: Option<&Value>) -> Result<Reading, StoreError> {
    let Some(Value::BulkString(bytes)) = value else {
        return Err(nonsense("no reading of a log"));
    };
    let [a, b, c, d, numbers @ ..] = bytes.as_slice() else {
        return Err(nonsense("a reading cut short"));
    };
    let mut numbers = numbers
        .chunks_exact(7)
        .map(|number| number.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)));
    let mut next = || numbers.next().ok_or_else(|| nonsense("a reading cut short"));
    let ask = match next()? {
        0 => Ask::Pass { wait: 0 },
        NEVER => Ask::Refuse { retry: None },
        wait => Ask::Refuse { retry: Some(wait) },
    };
    Ok(Reading {
        ask,
        violated: u32::from_be_bytes([*a, *b, *c, *d]),
        remaining_before: next()?,
        remaining: next()?,
        reset_after: next()?,
        total: next()?,
        current: next()?,
    })
}

/// What the kernels count with: they rely on every time and deficit being one.
fn exact(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|&number| number <= MAX_EXACT)
}

#[cold]
fn nonsense(what: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unexpected,
        format!(
            "the store answered {what}: is it a Redis or Valkey server, used by this program alone under its key prefix?"
        ),
    )
}
