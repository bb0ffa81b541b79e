//! Lengths of time in microseconds, in which the model computes.

use std::time::Duration;

use sluicegate_core::Span;

/// Returns a length of time in µs, rounded up.
pub(crate) fn micros(time: Duration) -> u64 {
    Span::from(time).as_micros()
}
