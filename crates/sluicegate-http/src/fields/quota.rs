//! The quota and window of a policy, as response fields report them.

use sluicegate_core::{Algorithm, CalendarUnit, Policy, Rate, Span, Window};

/// The largest cost that an unused key admits, or if there is none, the units per period.
pub(super) fn quota(policy: &Policy) -> u64 {
    match (policy.rule().limit(), policy.algorithm()) {
        (u64::MAX, Algorithm::Smooth { rate, .. } | Algorithm::WarmUp { rate, .. }) => rate.count(),
        (limit, _) => limit,
    }
}

/// The seconds over which the quota is granted, rounded up: for the bucket family, the time to
/// refill from empty. `None` below one second, since the field holds whole seconds.
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
                // The longest such period.
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
        // Matches `quota`, which is that of the tightest strategy.
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

/// The time in which `units` refill, in microseconds.
fn refill(rate: Rate, units: u64) -> Option<u64> {
    let product = u128::from(units) * u128::from(rate.per().as_micros());
    let micros = product.checked_div(u128::from(rate.count()))?;
    u64::try_from(micros).ok()
}

/// Clamps a number to 15 digits, the most that structured fields allow.
pub(super) const fn clamp(number: u64) -> u64 {
    const MAX: u64 = 999_999_999_999_999;
    if number < MAX { number } else { MAX }
}
