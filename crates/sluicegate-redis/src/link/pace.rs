//! The pace of a server's answers, and the number of calls that it can answer in time.

use std::time::Duration;

use tokio::time::Instant;

/// Number of calls that may wait while the pace is unknown.
const UNKNOWN: usize = 16_384;
/// Number of calls that may wait at any pace, so that there is always something to measure.
const FEWEST: usize = 64;
/// The shortest stretch to measure, and the time for which a measurement counts.
const STRETCH: Duration = Duration::from_millis(2);
const LATELY: Duration = Duration::from_secs(5);
/// Number of stretches for a reliable pace: a single one may have been interrupted.
const ENOUGH: u32 = 4;

/// The pace of a server while calls had to wait for it. At other times its answers only show the rate of
/// calls.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Start of the period in which calls are always waiting, and the number of answers since.
    busy: Option<(Instant, u64)>,
    measured: Option<Measured>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Calls a second.
    rate: u64,
    /// Time of the last measurement.
    at: Instant,
    /// Number of measurements without a long break.
    stretches: u32,
}

impl Pace {
    /// Counts answered calls; other calls may wait to be sent.
    pub(super) fn answered(&mut self, calls: u64, others_wait: bool, now: Instant) {
        if !others_wait {
            self.busy = None;
            return;
        }
        let Some((since, answered)) = self.busy else {
            self.busy = Some((now, 0));
            return;
        };
        let (answered, took) = (answered + calls, now.saturating_duration_since(since));
        if took < STRETCH {
            self.busy = Some((since, answered));
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = answered.saturating_mul(1_000_000) / micros;
        self.measured = Some(match self.lately(now) {
            Some(known) => Measured {
                rate: known.rate.saturating_mul(3).saturating_add(rate) / 4,
                at: now,
                stretches: known.stretches.saturating_add(1),
            },
            None => Measured { rate, at: now, stretches: 1 },
        });
        self.busy = Some((now, 0));
    }

    /// Returns the number of outstanding calls with which one more is answered within half of this time.
    pub(super) fn most(&self, patience: Duration, now: Instant) -> usize {
        let known = self.lately(now).filter(|known| known.stretches >= ENOUGH);
        let Some(Measured { rate, .. }) = known else { return UNKNOWN };
        let micros = u64::try_from(patience.as_micros()).unwrap_or(u64::MAX) / 2;
        let most = u128::from(rate) * u128::from(micros) / 1_000_000;
        usize::try_from(most).unwrap_or(usize::MAX).clamp(FEWEST, 4 * UNKNOWN)
    }

    fn lately(&self, now: Instant) -> Option<Measured> {
        self.measured.filter(|known| now.saturating_duration_since(known.at) < LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn after(start: Instant, micros: u64) -> Instant {
        start + Duration::from_micros(micros)
    }

    #[test]
    fn an_idle_server_is_trusted_with_a_burst() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        for call in 0..100 {
            pace.answered(1, false, after(start, call * 100));
        }
        assert_eq!(pace.most(PATIENCE, after(start, 10_000)), UNKNOWN);
    }

    #[test]
    fn as_many_may_wait_as_are_answered_in_half_their_time() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        for batch in 0..100 {
            pace.answered(100, true, after(start, batch * 1_000));
        }
        let now = after(start, 100_000);
        assert_eq!(pace.most(PATIENCE, now), 2_500, "100,000 a second");
        assert_eq!(pace.most(PATIENCE * 2, now), 5_000);
        assert_eq!(pace.most(Duration::from_micros(100), now), FEWEST);
        assert_eq!(pace.most(PATIENCE, now + LATELY), UNKNOWN, "that was long ago");
    }

    #[test]
    fn one_slow_moment_at_the_start_refuses_nobody() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.answered(1, true, start);
        // This looks like ten calls a second.
        pace.answered(1, true, after(start, 100_000));
        assert_eq!(pace.most(PATIENCE, after(start, 100_000)), UNKNOWN);
        for batch in 1..=3 {
            pace.answered(100, true, after(start, 100_000 + batch * 2_000));
        }
        assert!(pace.most(PATIENCE, after(start, 106_000)) > 500);
    }

    #[test]
    fn a_server_that_slows_down_gets_less_to_do_and_one_that_recovers_more() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut at = 0;
        let mut answer = |calls, micros| {
            at += micros;
            pace.answered(calls, true, after(start, at));
            pace.most(PATIENCE, after(start, at))
        };
        for _ in 0..50 {
            answer(100, 1_000);
        }
        let slow = (0..50).map(|_| answer(10, 10_000)).last().unwrap();
        assert_eq!(slow, FEWEST, "1,000 a second");
        let again = (0..50).map(|_| answer(100, 1_000)).last().unwrap();
        assert!((2_400..=2_500).contains(&again), "{again}");
    }
}
