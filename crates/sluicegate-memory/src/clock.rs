//! The wall clock of the machine, [`SystemClock`], by which a store decides by default.

use std::time::{SystemTime, UNIX_EPOCH};

use sluicegate_core::{Clock, Timestamp};

/// The machine's wall clock, read again for each decision.
///
/// It steps when the machine's clock is set, and counts the time while the machine is suspended. A
/// store treats such steps as a server treats those of its own clock. During a step back the
/// store's time stands still. After a step back of more than
/// [`Builder::max_clock_back`](crate::Builder::max_clock_back) keys are restamped. A step forward
/// counts as time.
///
/// ```
/// use sluicegate_core::Clock;
/// use sluicegate_memory::SystemClock;
///
/// let seconds = SystemClock::new().now().as_micros() / 1_000_000;
/// assert!(seconds > 1_700_000_000, "it shows a time after 2023");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock(());

impl SystemClock {
    /// Returns the machine's wall clock.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Clock for SystemClock {
    #[inline]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that all others are told to use"
    )]
    fn now(&self) -> Timestamp {
        // A clock that shows a time before 1970 stands still there.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = since
            .as_secs()
            .saturating_mul(1_000_000)
            .saturating_add(u64::from(since.subsec_micros()));
        Timestamp::from_micros_clamped(micros)
    }
}
