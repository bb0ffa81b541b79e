//! Comparison of the model's answers with those of a store.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Decision, Error, HoldFound, RequestError, RequestErrorKind, RetryAfter};

use super::answer::{Answer, Banned, Paused, PolicyAnswer, Repeat};
use super::holding::Settlement;
use crate::algorithms::{Refusal, Retry};
use crate::times::micros;

/// Returns one line per difference between the answers of a store and the model, none if they
/// agree.
#[must_use]
pub fn differences(
    expected: &Result<Answer, Refusal>,
    got: &Result<Decision, Error>,
) -> Vec<String> {
    match (expected, got) {
        (Ok(expected), Ok(got)) => between_answers(expected, got),
        (Err(refusal), Err(Error::Request(error))) if is_of(refusal, error) => Vec::new(),
        (Err(expected), got) => vec![format!("expected the error {expected:?}, got {got:?}")],
        (Ok(_), Err(error)) => vec![format!("expected an answer, got {error:?}")],
    }
}

/// Returns the differences between two settlements or renewals of a hold.
#[must_use]
pub fn settlement_differences(
    expected: &Result<Settlement, Refusal>,
    got: &Result<Decision, Error>,
) -> Vec<String> {
    let (expected, got) = match (expected, got) {
        (Ok(expected), Ok(got)) => (expected, got),
        (Err(refusal), Err(Error::Request(error))) if is_of(refusal, error) => return Vec::new(),
        (expected, got) => return vec![format!("expected {expected:?}, got {got:?}")],
    };
    let mut answer = expected.answer.clone();
    if expected.found == HoldFound::Unknown {
        (answer.allowed, answer.retry) = (false, Retry::Never);
    }
    answer.granted = Some(0);
    let mut differences = Differences(between_answers(&answer, got));
    differences.note("found", &Some(expected.found), &got.hold_found());
    for (index, (given, got)) in expected.given.iter().zip(got.policies()).enumerate() {
        // Other tests check by how much the counted units fell.
        differences.of(index, "gives back", given, &got.given_back().is_some());
    }
    differences.0
}

fn is_of(refusal: &Refusal, error: &RequestError) -> bool {
    let expected = match refusal {
        Refusal::TooLarge => RequestErrorKind::Overflow,
        Refusal::NotReservable
        | Refusal::NotLeasable
        | Refusal::NeedsHold
        | Refusal::NoQueue
        | Refusal::WaitsUnderAnId => RequestErrorKind::Unsupported,
        Refusal::NothingToWaitFor => RequestErrorKind::Invalid,
        Refusal::IdInUse | Refusal::AsksOtherwise => RequestErrorKind::Conflict,
    };
    error.kind() == expected
}

fn between_answers(expected: &Answer, got: &Decision) -> Vec<String> {
    let mut differences = Differences(Vec::new());
    differences.note("allowed", &expected.allowed, &got.is_allowed());
    differences.note("repeat", &(expected.repeat != Repeat::No), &got.is_repeat());
    if expected.repeat == Repeat::Renumbered {
        differences.note("holds", &expected.holds, &got.hold().is_some());
        if let Some(granted) = expected.granted {
            differences.note("granted", &granted, &got.granted());
        }
        return differences.0;
    }
    differences.note("binding", &expected.binding, &got.binding_index());
    differences.note("wait", &expected.wait_us, &micros(got.wait()));
    differences.note("retry", &expected.retry, &retry(got.retry_after()));
    if let Some(granted) = expected.granted {
        differences.note("granted", &granted, &got.granted());
    }
    differences.note("lease", &expected.lease, &got.lease());
    // Settlements and renewals have no such field.
    if got.hold_found().is_none() {
        differences.note("holds", &expected.holds, &got.hold().is_some());
    }
    differences.note("queued", &expected.queued, &got.queued());
    let ban = got.ban().map(|ban| Banned { ends_in_us: micros(ban.ends_in), begins: ban.begins });
    differences.note("ban", &expected.ban, &ban);
    let pause = got.pause();
    let pause = pause.map(|it| Paused { policy: it.policy, ends_in_us: micros(it.ends_in) });
    differences.note("pause", &expected.pause, &pause);
    if expected.resumed.is_some() {
        differences.note("resumed", &expected.resumed, &got.forgotten());
    }
    differences.note("restamped", &expected.restamped, &got.warnings().restamped);
    differences.note("policies", &expected.policies.len(), &got.policies().len());
    for (index, (expected, got)) in expected.policies.iter().zip(got.policies()).enumerate() {
        let PolicyAnswer { admitted, limit, remaining, wait_us, reset, violated, .. } = expected;
        differences.of(index, "admitted", admitted, &got.is_admitted());
        differences.of(index, "limit", limit, &got.limit());
        differences.of(index, "remaining", remaining, &got.remaining());
        differences.of(index, "wait", wait_us, &micros(got.wait()));
        differences.of(index, "retry", &expected.retry, &retry(got.retry_after()));
        differences.of(index, "reset", reset, &got.reset_after().map(micros));
        differences.of(index, "violated", violated, &got.violated().collect::<Vec<_>>());
        differences.of(index, "used", &expected.used, &got.used());
        if let Some(current) = expected.current_slice {
            differences.of(index, "current slice", &current, &got.current_slice());
        }
    }
    differences.0
}

fn retry(retry: RetryAfter) -> Retry {
    match retry {
        RetryAfter::NotRefused => Retry::Now,
        RetryAfter::After(wait) => Retry::After(micros(wait)),
        _ => Retry::Never,
    }
}

struct Differences(Vec<String>);

impl Differences {
    fn note<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, expected: &T, got: &T) {
        if expected != got {
            self.0.push(format!("{field}: expected {expected:?}, got {got:?}"));
        }
    }

    fn of<T: PartialEq + std::fmt::Debug>(
        &mut self,
        policy: usize,
        field: &str,
        expected: &T,
        got: &T,
    ) {
        self.note(&format!("policy {policy} {field}"), expected, got);
    }
}
