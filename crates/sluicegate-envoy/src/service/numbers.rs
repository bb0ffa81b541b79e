//! Numbers of requests per unit, as policies.

use std::time::Duration;

use sluicegate_core::{Policy, PolicyError, Window};

use crate::incumbent::Unit;

/// Returns the policy for a number of requests per unit. It counts denied ones too.
pub(super) fn policy(requests_per_unit: u32, unit: Unit) -> Result<Policy, PolicyError> {
    admitted(requests_per_unit, unit)?.count_denied()
}

/// Returns the policy for a number of requests per unit that counts only requests that pass.
pub(super) fn admitted(requests_per_unit: u32, unit: Unit) -> Result<Policy, PolicyError> {
    let length = Duration::from_secs(unit.seconds());
    Policy::fixed_window(requests_per_unit.into(), Window::Aligned(length))
}
