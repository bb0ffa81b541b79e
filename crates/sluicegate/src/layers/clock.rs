//! [`SuspendAwareClock`], with which layers and lease holders measure durations.

use sluicegate_core::{Clock, Timestamp};

/// The time since the machine started, including the time in which it was suspended. A lease must not outlast its end
/// because its holder was suspended.
///
/// Layers use this clock, because it never steps when the machine's time is set. An embedded store uses the wall clock,
/// [`SystemClock`](crate::testing::SystemClock).
///
/// On Linux and Android this is the clock `CLOCK_BOOTTIME`. On other systems it is the longer of the times that have
/// passed on the wall clock and on the monotonic clock.
///
/// ```
/// use sluicegate::layers::SuspendAwareClock;
/// use sluicegate::testing::Clock;
///
/// let clock = SuspendAwareClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SuspendAwareClock(imp::Start);

impl SuspendAwareClock {
    /// Returns the clock of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self(imp::Start::new())
    }
}

impl Default for SuspendAwareClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SuspendAwareClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros_clamped(self.0.micros())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use rustix::time::{ClockId, clock_gettime};

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Start;

    impl Start {
        pub(super) const fn new() -> Self {
            Self
        }

        #[inline]
        #[expect(clippy::unused_self, reason = "other systems need the start")]
        pub(super) fn micros(self) -> u64 {
            let time = clock_gettime(ClockId::Boottime);
            let [seconds, nanos] =
                [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
            seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000)
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::time::{Instant, SystemTime};

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Start {
        monotonic: Instant,
        wall: SystemTime,
    }

    #[expect(clippy::disallowed_methods, reason = "other code takes the time from here")]
    impl Start {
        pub(super) fn new() -> Self {
            Self { monotonic: Instant::now(), wall: SystemTime::now() }
        }

        pub(super) fn micros(self) -> u64 {
            let monotonic = self.monotonic.elapsed();
            let wall = self.wall.elapsed().unwrap_or_default();
            u64::try_from(monotonic.max(wall).as_micros()).unwrap_or(u64::MAX)
        }
    }
}
