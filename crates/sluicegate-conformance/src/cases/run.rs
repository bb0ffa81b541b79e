//! The runner of cases against a store.

use std::fmt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde_json::{Value, json};
use sluicegate_core::{Decision, Policy, RetryAfter, Span, printable};

use super::case::{Case, Event, Expect, Expected};
use super::params::{BuildError, Subject};

/// A target that cases run against: one limit at a time, under injected time.
pub trait Target {
    /// A failure of the store itself, which ends the run.
    type Error;

    /// Opens a limit of `policies` whose keys are all unused. It replaces the previous limit.
    fn open(&mut self, policies: Vec<Policy>) -> impl Future<Output = Result<(), Self::Error>>;

    /// Changes the limit's policies, by position, and keeps the consumed units.
    fn set_policies(
        &mut self,
        policies: Vec<Policy>,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Decides one request.
    fn step(
        &mut self,
        step: &Step<'_>,
    ) -> impl Future<Output = Result<StepAnswer, StepError<Self::Error>>>;
}

/// One request to a [`Target`].
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The key, which is unique for each key of the case.
    pub key: &'a [u8],
    /// Microseconds since the Unix epoch.
    pub at_us: u64,
    /// The cost under every policy, in units.
    pub cost: u64,
    /// The longest accepted wait, in microseconds. If it is above 0 and the limit supports
    /// reservations, the request is a reservation; otherwise it is a plain check.
    pub timeout_us: u64,
}

/// The answer of a [`Target`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StepAnswer {
    /// Whether the request passes.
    pub allowed: bool,
    /// The largest cost that would still pass; `None` for no bound.
    pub remaining: Option<u64>,
    /// The time at which the request would pass.
    pub retry: Retry,
    /// On an allow, microseconds until the caller may act.
    pub wait_us: u64,
    /// The policies that refused, by position.
    pub refused: Vec<usize>,
    /// The tiers of the first policy, a log, that refused.
    pub violated: Vec<usize>,
}

/// The time at which a refused request would pass.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Retry {
    /// Immediately.
    Now,
    /// After this many microseconds.
    After(u64),
    /// Never.
    Never,
}

impl From<&Decision> for StepAnswer {
    fn from(decision: &Decision) -> Self {
        let refused = decision.policies().enumerate().filter(|(_, policy)| !policy.is_admitted());
        Self {
            allowed: decision.is_allowed(),
            remaining: decision.remaining(),
            retry: match decision.retry_after() {
                RetryAfter::After(wait) => Retry::After(Span::from(wait).as_micros()),
                RetryAfter::NotRefused => Retry::Now,
                _ => Retry::Never,
            },
            wait_us: Span::from(decision.wait()).as_micros(),
            refused: refused.map(|(index, _)| index).collect(),
            violated: decision.policy(0).map(|log| log.violated().collect()).unwrap_or_default(),
        }
    }
}

/// The reason why a [`Target`] has no answer.
#[derive(Clone, Debug)]
pub enum StepError<E> {
    /// The store works, but rejects the request: the case fails.
    Refused(String),
    /// The store failed: the run ends.
    Store(E),
}

/// One event with a wrong answer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Failure {
    /// The case.
    pub case: String,
    /// The event, from 0; `None` if the parameters are at fault.
    pub event: Option<usize>,
    /// The first field of the event that differs.
    pub field: &'static str,
    /// The value that the case requires.
    pub expected: Value,
    /// The value that the store answered.
    pub got: Value,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, event, field, expected, got } = self;
        write!(f, "{}: ", printable(case))?;
        if let Some(event) = event {
            write!(f, "event {event}: ")?;
        }
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), printable);
        write!(f, "{field}: expected {}, got {}", plain(expected), plain(got))
    }
}

/// The result of a run, counted in cases.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Cases without a failure.
    pub passed: usize,
    /// Cases with one or more.
    pub failed: usize,
    /// One per failed event.
    pub failures: Vec<Failure>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs cases in order, and calls `observe` after each with its failures.
///
/// # Errors
/// Returns an error if the store fails. `observe` has seen the cases that ran before.
pub async fn run<T: Target>(
    target: &mut T,
    cases: &[Case],
    mut observe: impl FnMut(&Case, &[Failure]),
) -> Result<Report, T::Error> {
    let mut report = Report::default();
    for case in cases {
        let failures = run_case(target, case).await?;
        observe(case, &failures);
        if failures.is_empty() {
            report.passed += 1;
        } else {
            report.failed += 1;
        }
        report.failures.extend(failures);
    }
    Ok(report)
}

/// Runs one case to its end, regardless of failures on the way.
///
/// # Errors
/// Returns an error if the store fails.
pub async fn run_case<T: Target>(target: &mut T, case: &Case) -> Result<Vec<Failure>, T::Error> {
    let failure = |event, field, expected: Value, got: Value| Failure {
        case: case.id.clone(),
        event,
        field,
        expected,
        got,
    };
    let policies = match case.subject.build() {
        Ok(policies) if !case.invalid => policies,
        Ok(_) => return Ok(vec![failure(None, "params", "refused".into(), "accepted".into())]),
        Err(BuildError::Refused { parameter, .. })
            if case.invalid && case.subject.has(&parameter) =>
        {
            return Ok(Vec::new());
        }
        Err(error) if case.invalid => {
            let expected = "refused by the name of the parameter";
            return Ok(vec![failure(None, "params", expected.into(), error.to_string().into())]);
        }
        Err(error) => {
            return Ok(vec![failure(None, "params", "accepted".into(), error.to_string().into())]);
        }
    };
    target.open(policies).await?;
    let mut subject = case.subject.clone();
    let mut failures = Vec::new();
    for (index, event) in case.events.iter().enumerate() {
        let (at_us, key, cost, timeout_us, expected) = match event {
            Event::Request { at_us, key, cost, timeout_us, expected } => {
                (*at_us, key, *cost, *timeout_us, expected)
            }
            Event::SetParams(changes) => {
                match subject.set(changes).and_then(|()| subject.build()) {
                    Ok(policies) => target.set_policies(policies).await?,
                    Err(error) => {
                        let got = error.to_string().into();
                        failures.push(failure(Some(index), "set_params", "accepted".into(), got));
                    }
                }
                continue;
            }
        };
        // The key without a name must not collide with a named one.
        let key = key.as_ref().map_or_else(|| "-".to_owned(), |key| format!("={key}"));
        let step = Step { key: key.as_bytes(), at_us, cost, timeout_us };
        match target.step(&step).await {
            Ok(answer) => {
                if let Some((field, expected, got)) = difference(&subject, expected, &answer) {
                    failures.push(failure(Some(index), field, expected, got));
                }
            }
            Err(StepError::Refused(problem)) => {
                let got = format!("error: {problem}").into();
                failures.push(failure(Some(index), "expect", expected.expect.word().into(), got));
            }
            Err(StepError::Store(error)) => return Err(error),
        }
    }
    Ok(failures)
}

/// Returns the output of a future that is ready at the first poll, as those of embedded stores are.
/// Otherwise returns `None`.
pub fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Returns the first field that differs, its required value and its actual value.
fn difference(
    subject: &Subject,
    expected: &Expected,
    answer: &StepAnswer,
) -> Option<(&'static str, Value, Value)> {
    let got = if answer.allowed { Expect::Allow } else { Expect::Deny };
    if got != expected.expect {
        return Some(("expect", expected.expect.word().into(), got.word().into()));
    }
    if let Some(remaining) = expected.remaining
        && remaining != answer.remaining
    {
        return Some(("remaining", json!(remaining), json!(answer.remaining)));
    }
    let retry_after_ms = match answer.retry {
        Retry::Now => Some(0),
        Retry::After(micros) => Some(micros.div_ceil(1_000)),
        Retry::Never => None,
    };
    if let Some(retry) = expected.retry_after_ms
        && retry != retry_after_ms
    {
        return Some(("retry_after_ms", json!(retry), json!(retry_after_ms)));
    }
    let wait_ms = answer.wait_us.div_ceil(1_000);
    if let Some(wait) = expected.wait_ms
        && wait != wait_ms
    {
        return Some(("wait_ms", json!(wait), json!(wait_ms)));
    }
    let violated = if subject.has_tiers() { &answer.violated } else { &answer.refused };
    if let Some(expected) = &expected.violated
        && expected != violated
    {
        return Some(("violated", json!(expected), json!(violated)));
    }
    None
}
