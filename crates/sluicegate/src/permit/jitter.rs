//! Times that differ at random, so that those who began together don't go on together.

use std::time::Duration;

/// From nothing up to a time.
pub(super) fn up_to(longest: Duration) -> Duration {
    let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(fastrand::u64(0..=micros))
}

/// From three quarters of a time up to it.
pub(super) fn nearly(longest: Duration) -> Duration {
    longest - up_to(longest / 4)
}
