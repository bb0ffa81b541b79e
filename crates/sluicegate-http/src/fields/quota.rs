//! A policy's numbers as fields tell them.

use sluicegate_core::{Algorithm, CalendarUnit, Policy, Rate, Span, Window};

/// The largest cost a fresh key admits; where there is no such cost, the units per period.
pub(super) fn quota(policy: &Policy) -> u64 {
    match (policy.rule().limit(), policy.algorithm()) {
        (u64::MAX, Algorithm::Smooth { rate, .. } | Algorithm::WarmUp { rate, .. }) => rate.count(),
        (limit, _) => limit,
    }
}

/// The seconds over which the quota is given: for the bucket family the time from empty to full.
/// What is below a second has no spelling, since the field holds whole seconds.
pub(super) fn window(policy: &Policy) -> Option<u64> {
    const DAY: u64 = 86_400;
    let micros = match policy.algorithm() {
        Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
            refill(*rate, *burst)?
        }
        Algorithm::LeakyBucket { rate, capacity } => refill(*rate, *capacity)?,
        Algorithm::Shaper { rate, queue } => refill(*rate, queue.saturating_add(1))?,
        Algorithm::Smooth { rate, .. } | Algorithm::WarmUp { rate, .. } => rate.per().as_micros(),
        Algorithm::FixedWindow { window, .. } => match window {
            Window::FirstAdmitted(span) | Window::Aligned(span) => span.as_micros(),
            Window::Calendar(calendar) => {
                // As long as one can be.
                return Some(match calendar.unit() {
                    CalendarUnit::Day => DAY,
                    CalendarUnit::Week => 7 * DAY,
                    CalendarUnit::Month => 31 * DAY,
                    CalendarUnit::Year => 366 * DAY,
                    _ => return None,
                });
            }
            _ => return None,
        },
        Algorithm::SlidingWindow { window, .. } | Algorithm::SlidingCounter { window, .. } => {
            window.as_micros()
        }
        // The quota is that of the tightest strategy.
        Algorithm::SlidingLog { strategies } => strategies
            .iter()
            .min_by_key(|strategy| (strategy.limit, u64::MAX - strategy.window.as_micros()))?
            .window
            .as_micros(),
        _ => return None,
    };
    let second = Span::SECOND.as_micros();
    (micros >= second).then(|| clamp(micros.div_ceil(second)))
}

/// The time in which `units` flow back, in microseconds.
fn refill(rate: Rate, units: u64) -> Option<u64> {
    let product = u128::from(units) * u128::from(rate.per().as_micros());
    let micros = product.checked_div(u128::from(rate.count()))?;
    u64::try_from(micros).ok()
}

/// Integers in structured fields have at most 15 digits.
pub(super) const fn clamp(number: u64) -> u64 {
    const MAX: u64 = 999_999_999_999_999;
    if number < MAX { number } else { MAX }
}
