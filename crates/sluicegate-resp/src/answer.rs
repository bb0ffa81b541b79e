//! Answers to requests about limits.

use std::time::Duration;

use sluicegate_core::{Decision, HoldFound, RetryAfter, Span};

use crate::output::{Output, Protocol};

/// The hold in an answer: the text of its token, and its lifetime.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The text of the token.
    pub token: &'a str,
    /// The lifetime of the hold.
    pub lasts: Duration,
}

/// Writes a decision: an array in RESP2, and a map in RESP3.
///
/// With `hold` it also has the hold, or nulls if nothing is held.
///
/// ```
/// use sluicegate_core::Decision;
/// use sluicegate_core::for_stores::DecisionForStores as _;
/// use sluicegate_resp::{Output, Protocol, write_decision};
///
/// let decision = Decision::bypass(true);
/// let mut output = Output::default();
/// write_decision(&decision, None, &mut output);
/// assert_eq!(output.bytes(), b"*4\r\n:1\r\n$-1\r\n:0\r\n:0\r\n");
/// ```
pub fn write_decision(decision: &Decision, hold: Option<Option<Held<'_>>>, output: &mut Output) {
    let is_resp3 = output.protocol() == Protocol::Resp3;
    output.record(4 + usize::from(is_resp3) + if hold.is_some() { 2 } else { 0 });
    output.field("allowed");
    output.boolean(decision.is_allowed());
    output.field("remaining");
    write_units(decision.remaining(), output);
    output.field("retry_after_ms");
    output.integer(retry_after(decision));
    output.field("reset_after_ms");
    output.integer(reset_after(decision));
    if is_resp3 {
        output.field("binding");
        match decision.binding() {
            Some(binding) => output.bulk(binding.name().as_str().as_bytes()),
            None => output.null(),
        }
    }
    let Some(held) = hold else { return };
    output.field("hold");
    match held {
        Some(held) => output.bulk(held.token.as_bytes()),
        None => output.null(),
    }
    output.field("hold_for_ms");
    match held {
        Some(held) => output.integer(millis(held.lasts)),
        None => output.null(),
    }
}

/// Writes the outcome of settling a hold: an array in RESP2, and a map in RESP3. Without a hold, all but the first value
/// are nulls.
///
/// ```
/// use sluicegate_core::Decision;
/// use sluicegate_core::for_stores::DecisionForStores as _;
/// use sluicegate_resp::{Output, write_settled};
///
/// let mut output = Output::default();
/// write_settled(&Decision::bypass(true), &mut output);
/// assert_eq!(output.bytes(), b"*4\r\n:1\r\n$-1\r\n$-1\r\n:0\r\n");
/// ```
pub fn write_settled(decision: &Decision, output: &mut Output) {
    let is_found = decision.hold_found() != Some(HoldFound::Unknown);
    let given_back = decision.policies().filter_map(|policy| policy.given_back()).max();
    output.record(4);
    output.field("found");
    output.boolean(is_found);
    output.field("remaining");
    write_units(decision.remaining().filter(|_| is_found), output);
    output.field("given_back");
    write_units(given_back.filter(|_| is_found), output);
    output.field("reset_after_ms");
    if is_found {
        output.integer(reset_after(decision));
    } else {
        output.null();
    }
}

/// Writes a number of units; a null if it isn't bounded, or nothing was evaluated.
fn write_units(units: Option<u64>, output: &mut Output) {
    match units {
        Some(units) => output.integer(units.try_into().unwrap_or(i64::MAX)),
        None => output.null(),
    }
}

/// Returns the time until a retry in ms, or until an allowed request acts; −1 for never.
fn retry_after(decision: &Decision) -> i64 {
    match decision.retry_after() {
        RetryAfter::NotRefused => millis(decision.wait()),
        retry => retry.as_millis_ceil().map_or(-1, |it| it.try_into().unwrap_or(i64::MAX)),
    }
}

/// Returns the time in ms until all policies are as for a fresh key; −1 for never.
fn reset_after(decision: &Decision) -> i64 {
    let enforced = decision.policies().filter(|policy| !policy.is_shadow());
    let times = enforced.map(|policy| policy.reset_after().map_or(-1, millis));
    let mut longest = 0;
    for time in times {
        if time < 0 {
            return -1;
        }
        longest = longest.max(time);
    }
    longest
}

fn millis(time: Duration) -> i64 {
    Span::from(time).as_millis_ceil().try_into().unwrap_or(i64::MAX)
}
