//! The clock of the machine, read so that it never runs backwards.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sluicegate_core::{Clock, Timestamp};

/// Wall time as it was when the clock was made, plus the monotonic time since then: it never
/// steps, forward or back, when somebody sets the machine's clock.
///
/// ```
/// use sluicegate_core::Clock;
/// use sluicegate_memory::SystemClock;
///
/// let clock = SystemClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// Microseconds since the epoch at `start`.
    wall: u64,
    start: Instant,
}

impl SystemClock {
    /// A clock that starts at the machine's present wall time.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that all others are told to use"
    )]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX), start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that all others are told to use"
    )]
    fn now(&self) -> Timestamp {
        let elapsed = Instant::now().duration_since(self.start);
        let micros = elapsed
            .as_secs()
            .wrapping_mul(1_000_000)
            .wrapping_add(u64::from(elapsed.subsec_micros()));
        Timestamp::from_micros_clamped(self.wall.saturating_add(micros))
    }
}
