//! Pauses between streams.

use std::time::Duration;

use crate::incumbent::Backoff;

/// The pauses between attempts, which grow until a push arrives.
#[derive(Debug)]
pub(super) struct Pauses {
    initial: Duration,
    max: Duration,
    factor: f64,
    has_jitter: bool,
    next: Duration,
}

impl Pauses {
    /// Makes pauses. Zero counts as the default, as in the incumbent.
    pub(super) fn new(backoff: &Backoff) -> Self {
        let or = |given: Duration, default| if given.is_zero() { default } else { given };
        let max = or(backoff.max, Duration::from_secs(10));
        let initial = or(backoff.initial, Duration::from_millis(100)).min(max);
        let factor = if backoff.factor > 0.0 { backoff.factor } else { 2.0 };
        Self { initial, max, factor, has_jitter: backoff.has_jitter, next: initial }
    }

    /// Returns the next pause. `random` is a number from 0 up to 1.
    pub(super) fn next(&mut self, random: f64) -> Duration {
        let pause = self.next;
        self.next = pause.mul_f64(self.factor).clamp(self.initial, self.max);
        if self.has_jitter { self.initial + (pause - self.initial).mul_f64(random) } else { pause }
    }

    /// Begins again with the first pause.
    pub(super) const fn reset(&mut self) {
        self.next = self.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(initial: u64, max: u64, factor: f64, has_jitter: bool) -> Pauses {
        let (initial, max) = (Duration::from_millis(initial), Duration::from_millis(max));
        Pauses::new(&Backoff { initial, max, factor, has_jitter })
    }

    fn first(mut pauses: Pauses, random: f64) -> [u128; 4] {
        [(); 4].map(|()| pauses.next(random).as_millis())
    }

    #[test]
    fn pauses_grow_up_to_the_maximum() {
        assert_eq!(first(pauses(10, 60, 2.0, false), 0.9), [10, 20, 40, 60]);
        assert_eq!(first(pauses(10, 60, 2.0, true), 0.5), [10, 15, 25, 35]);
        assert_eq!(first(pauses(10, 60, 0.5, true), 0.5), [10, 10, 10, 10]);
        assert_eq!(first(pauses(90, 60, 1_000.0, true), 0.5), [60, 60, 60, 60]);
        assert_eq!(first(pauses(0, 0, 0.0, false), 0.5), [100, 200, 400, 800]);
        let mut again = pauses(10, 60, 2.0, false);
        again.next(0.0);
        again.reset();
        assert_eq!(again.next(0.0).as_millis(), 10);
    }

    #[test]
    fn the_longest_pauses_do_not_overflow() {
        let longest = u64::try_from(i64::MAX / 1_000_000).unwrap();
        assert_eq!(first(pauses(longest, longest, 1_000.0, true), 0.5), [u128::from(longest); 4]);
    }
}
