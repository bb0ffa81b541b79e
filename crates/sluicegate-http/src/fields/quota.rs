//! The numbers of a policy as response fields show them.

use std::time::Duration;

use sluicegate_core::{Policy, Span};

/// Returns the quota: the largest cost that an unused key admits, or if there is none, the units per
/// period.
pub(super) fn units(policy: &Policy) -> u64 {
    clamp(policy.quota().units)
}

/// Returns the seconds over which the quota is granted, rounded up. `None` below one second, since
/// the field holds whole seconds.
pub(super) fn window(policy: &Policy) -> Option<u64> {
    let window = policy.quota().window?;
    (window >= Duration::from_secs(1)).then(|| clamp(Span::from(window).as_secs_ceil()))
}

/// Clamps a number to 15 digits, the maximum in structured fields.
pub(super) const fn clamp(number: u64) -> u64 {
    const MAX: u64 = 999_999_999_999_999;
    if number < MAX { number } else { MAX }
}
