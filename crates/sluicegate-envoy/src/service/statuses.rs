//! The status of a descriptor, from the decision of a limit.

use std::time::Duration;

use sluicegate_core::{Decision, LimitName, Outcome, Policy, RetryAfter};

use crate::incumbent::{Code, CurrentLimit, Status, Unit};

/// Returns the status of a descriptor whose limit was decided alone.
pub(super) fn status(decision: &Decision) -> Status {
    let fewest = || decision.policies().min_by_key(|it| it.remaining().unwrap_or(u64::MAX));
    let shown = decision.binding().or_else(fewest);
    let wait = decision.retry_after();
    let name = decision.limit().map(sluicegate_core::Limit::name);
    of(code(decision.is_denied()), name, shown.as_ref(), wait)
}

/// Returns the status of a descriptor whose limit was decided together with others.
pub(super) fn status_of(decision: &Decision, name: &LimitName) -> Status {
    let part = decision.limit().and_then(|limit| limit.parts().iter().position(|it| it == name));
    // A list or a failure of the store denies without a limit.
    let is_denied_outside = decision.is_denied() && decision.binding_limit().is_none();
    let Some(part) = part else {
        return Status::of_nothing(code(is_denied_outside), 0);
    };
    let own = decision.policies().filter(|it| it.member().part() == part);
    let fewest = || own.min_by_key(|it| it.remaining().unwrap_or(u64::MAX));
    let shown = decision.binding_of(part).or_else(fewest);
    let wait = match &shown {
        Some(shown) if decision.binding_limit() != Some(name) => shown.retry_after(),
        _ => decision.retry_after(),
    };
    let is_over = is_denied_outside || decision.is_refused_by(part);
    of(code(is_over), Some(name), shown.as_ref(), wait)
}

const fn code(is_over: bool) -> Code {
    if is_over { Code::OverLimit } else { Code::Ok }
}

fn of(
    code: Code,
    name: Option<&LimitName>,
    shown: Option<&Outcome<'_>>,
    wait: RetryAfter,
) -> Status {
    // The time until the request can pass, or until everything is available again. Envoy writes it to `Retry-After` and
    // `x-ratelimit-reset`.
    let until = match wait {
        RetryAfter::After(wait) if code == Code::OverLimit => Some(wait),
        _ => shown.and_then(Outcome::reset_after),
    };
    let remaining = shown.map_or(0, |it| it.remaining().unwrap_or(u64::MAX));
    let limit = |shown: &Outcome<'_>| {
        Some(CurrentLimit {
            name: name.map_or_else(String::new, ToString::to_string),
            requests_per_unit: u32::try_from(shown.limit()?).unwrap_or(u32::MAX),
            unit: unit(shown.member().policy()),
        })
    };
    Status {
        code,
        // A ban, a list or a switch decides without a policy.
        current_limit: shown.and_then(limit),
        remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        // Envoy drops fractions, and a client that comes earlier is denied again.
        reset_seconds: until
            .map(|until| u64::try_from(until.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX)),
    }
}

/// Returns the unit over which the quota is granted; without one, Envoy shows the numbers without a window.
fn unit(policy: &Policy) -> Option<Unit> {
    let window = policy.quota().window;
    let is_window = |unit: &Unit| window == Some(Duration::from_secs(unit.seconds()));
    Unit::ALL.into_iter().find(is_window)
}
