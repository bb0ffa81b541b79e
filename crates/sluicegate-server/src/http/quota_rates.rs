//! The rates of limits that Envoys share, as answers and metrics show them.

/// The maximum number of limits in an answer, and with metrics.
pub(super) const MOST_LIMITS: usize = 1_000;

/// Returns a rate in requests per second.
#[expect(clippy::cast_precision_loss, clippy::float_arithmetic, reason = "a number to look at")]
pub(super) fn per_second(per_kilosecond: u64) -> f64 {
    per_kilosecond as f64 / 1_000.0
}
