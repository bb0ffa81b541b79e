//! Pauses between attempts to reach a server that accepts no connection.

use std::time::Duration;

/// The pause after the first failed attempt.
const SHORTEST: Duration = Duration::from_millis(10);

/// Pauses that double. Each is shortened by up to a half at random, so that processes don't return at the
/// same time.
#[derive(Debug)]
pub(crate) struct Backoff {
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Returns pauses of at most this length.
    pub(crate) const fn up_to(longest: Duration) -> Self {
        Self { longest, failures: 0 }
    }

    /// Returns the pause after another failure.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = SHORTEST.saturating_mul(1 << self.failures.min(16)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        pause / 2 + pause / 2_000 * fastrand::u32(0..=1_000)
    }

    /// Starts with the shortest pause again, because the server was useful.
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_and_differ() {
        const LONGEST: Duration = Duration::from_secs(1);
        let mut backoff = Backoff::up_to(LONGEST);
        let pauses: Vec<_> = (0..40).map(|_| backoff.pause()).collect();
        for (failure, pause) in pauses.iter().enumerate() {
            let whole = (SHORTEST * (1 << failure.min(10))).min(LONGEST);
            assert!((whole / 2..=whole).contains(pause), "{failure}: {pause:?}");
        }
        assert!(pauses[10..].iter().any(|pause| *pause != pauses[10]));
        backoff.reset();
        assert!(backoff.pause() <= SHORTEST);
    }
}
