//! Random times, so that callers that started together spread out.

use std::time::Duration;

use sluicegate_core::Span;
use tokio::time::Instant;

/// The maximum of the random time by which a waiting caller acts later than it could.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter(Duration);

impl Jitter {
    pub(crate) fn of(longest: Span) -> Self {
        Self(longest.into())
    }

    /// Returns a random instant from `then` on, by at most the maximum, and not after `end` unless `then` is.
    pub(crate) fn after(self, then: Instant, end: Instant) -> Instant {
        then + up_to(self.0.min(end.saturating_duration_since(then)))
    }
}

/// Returns a random time from zero to `longest`.
pub(crate) fn up_to(longest: Duration) -> Duration {
    let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(fastrand::u64(0..=micros))
}

/// Returns a random time from three quarters of a time to all of it.
pub(crate) fn nearly(longest: Duration) -> Duration {
    longest - up_to(longest / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_instant_is_delayed_by_up_to_the_jitter_and_never_beyond_the_end() {
        let now = Instant::now();
        let delays = |jitter: Duration, end: Instant| {
            let of = |_| Jitter::of(jitter.into()).after(now, end).duration_since(now);
            let delays: Vec<_> = (0..200).map(of).collect();
            (delays.iter().min().copied().unwrap(), delays.iter().max().copied().unwrap())
        };
        fastrand::seed(7);
        let (least, most) = delays(SECOND, now + 9 * SECOND);
        assert!(least < SECOND / 10 && most > SECOND * 9 / 10 && most <= SECOND);
        let (least, most) = delays(9 * SECOND, now + SECOND);
        assert!(least < SECOND / 10 && most > SECOND * 9 / 10 && most <= SECOND);
        assert_eq!(delays(Duration::ZERO, now + SECOND), (Duration::ZERO, Duration::ZERO));
        assert_eq!(Jitter::of(Span::MAX).after(now + SECOND, now), now + SECOND);
    }
}
