//! The number of decisions per second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate::admin::{Answered, Observer};
use tokio::time::Instant;

/// Counts decisions, and knows how many there were per second lately.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    decisions: AtomicU64,
    /// The number at the beginning of the current interval, that moment, and the rate of the interval before.
    interval: Mutex<Option<(u64, Instant, u64)>>,
}

impl Rate {
    /// The length of an interval.
    const INTERVAL: Duration = Duration::from_secs(2);

    /// Returns the number of decisions per second in the last interval that has ended.
    pub(crate) fn per_second(&self, now: Instant) -> u64 {
        let count = self.decisions.load(Ordering::Relaxed);
        let mut interval = self.interval.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, since, rate) = interval.get_or_insert((count, now, 0));
        let passed = now.saturating_duration_since(*since);
        if passed >= Self::INTERVAL {
            let millis = passed.as_millis().max(1);
            let rated = u128::from(count - *begun) * 1_000 / millis;
            (*begun, *since, *rate) = (count, now, u64::try_from(rated).unwrap_or(u64::MAX));
        }
        *rate
    }
}

impl Observer for Rate {
    fn answered(&self, answered: &Answered<'_>) {
        if answered.is_admission() {
            self.decisions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_that_of_the_last_interval() {
        let rate = Rate::default();
        let count = |decisions| {
            let _ = rate.decisions.fetch_add(decisions, Ordering::Relaxed);
        };
        assert_eq!(rate.per_second(Instant::now()), 0);
        count(500);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(rate.per_second(Instant::now()), 0, "the interval goes on");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(rate.per_second(Instant::now()), 250);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(rate.per_second(Instant::now()), 0);
    }
}
