//! When a waiting caller retries: after a denied permit, or a failed store.

use std::time::Duration;

use sluicegate_core::{Algorithm, Decision, Error, Outcome, Queued, RetryAfter, StoreError};
use tokio::time::Instant;

use crate::jitter::nearly;

/// When to retry a permit that is denied, until an end.
///
/// A denial says when the units in flight return at the latest. Most return long before, so the request is retried
/// after growing pauses.
#[derive(Debug)]
pub(crate) struct Pauses {
    end: Instant,
    pause: Duration,
}

impl Pauses {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_millis(500);

    pub(crate) const fn until(end: Instant) -> Self {
        Self { end, pause: Self::SHORTEST }
    }

    /// Returns when to retry, or `None` after a final answer.
    pub(crate) fn after(&mut self, answer: &Decision) -> Option<Instant> {
        let RetryAfter::After(latest) = answer.retry_after() else {
            return None;
        };
        if answer.queued() == Some(Queued::Full) {
            return None;
        }
        let now = Instant::now();
        let refused =
            answer.policies().filter(|policy| !policy.is_admitted() && !policy.is_shadow());
        // An earlier retry can't succeed.
        let earliest =
            refused.filter(|policy| !is_in_flight(policy)).map(|policy| policy.retry_after());
        let earliest = earliest.filter_map(RetryAfter::duration);
        let ban = answer.ban().map(|ban| ban.ends_in);
        let pause = answer.pause().map(|pause| pause.ends_in);
        let earliest = earliest.chain(ban).chain(pause).max().unwrap_or_default();
        if answer.is_allowed() || now >= self.end || now + earliest > self.end {
            return None;
        }
        let pause = self.next_pause().min(latest);
        Some((now + pause.max(earliest)).min(self.end))
    }

    /// Returns when to retry a store that charged nothing and may recover soon. `None` after other errors, and when the
    /// time is up.
    pub(crate) fn after_error(&mut self, error: &Error) -> Option<Instant> {
        let is_worth_it = error.as_store().is_some_and(StoreError::is_worth_a_retry);
        let now = Instant::now();
        (is_worth_it && now < self.end).then(|| (now + self.next_pause()).min(self.end))
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(Self::LONGEST);
        // Spread out callers that have waited since the same instant.
        nearly(pause)
    }
}

fn is_in_flight(policy: &Outcome<'_>) -> bool {
    matches!(policy.member().policy().algorithm(), Algorithm::Concurrency { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{Ask, Limiter, MemoryStore};

    fn denial(specs: &[&str]) -> Decision {
        let limit = crate::Limit::new("l", specs).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), limit);
        let _ = limiter.check(Ask::new("k")).hold(Duration::from_secs(1)).now().unwrap();
        limiter.check(Ask::new("k")).hold(Duration::from_secs(1)).now().unwrap().into_decision()
    }

    fn pauses(millis: u64) -> Pauses {
        Pauses::until(Instant::now() + Duration::from_millis(millis))
    }

    #[tokio::test(start_paused = true)]
    async fn units_in_flight_are_asked_for_again_soon_and_a_last_time_at_the_end() {
        let denial = denial(&["concurrency 1 hold 1h"]);
        let (start, mut pauses) = (Instant::now(), pauses(3_000));
        let mut asked = 0;
        while let Some(next) = pauses.after(&denial) {
            tokio::time::sleep_until(next).await;
            asked += 1;
        }
        assert_eq!(start.elapsed(), Duration::from_secs(3));
        assert!((8..20).contains(&asked), "{asked}");
    }

    #[tokio::test(start_paused = true)]
    async fn other_policies_are_waited_for_or_are_hopeless() {
        let denial = denial(&["concurrency 1 hold 1h", "fixed_window 1/s"]);
        assert_eq!(pauses(500).after(&denial), None);
        let next = pauses(2_000).after(&denial).unwrap();
        assert!(next.duration_since(Instant::now()) > Duration::from_millis(900));
        let never = crate::Limit::new("l", ["concurrency 0 hold 1h"]).unwrap();
        let never = Limiter::new(MemoryStore::new(), never)
            .check("k")
            .hold(Duration::from_secs(1))
            .now()
            .unwrap();
        assert_eq!(pauses(2_000).after(&never), None);
    }
}
