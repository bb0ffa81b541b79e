//! Random times, so that callers that started together spread out.

use std::time::Duration;

/// Returns a random time from zero to `longest`.
pub(super) fn up_to(longest: Duration) -> Duration {
    let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(fastrand::u64(0..=micros))
}

/// Returns a random time from three quarters of a time to all of it.
pub(super) fn nearly(longest: Duration) -> Duration {
    longest - up_to(longest / 4)
}
