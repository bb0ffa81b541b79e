//! The demand of a holder.

/// The demand of a holder, from what it reports.
///
/// Reports are counted by this process's own stopwatch, because Envoy cuts its times to whole seconds. A holder that lies
/// about its demand gets at most its fair share.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Demand {
    since: u64,
    requests: u64,
    /// Requests per 1,000 seconds, once they were collected.
    per_kilosecond: Option<u64>,
}

impl Demand {
    /// The shortest time over which requests are collected, in µs.
    const SHORTEST: u64 = 2_000_000;

    /// Begins to collect now: what the first report says happened at an unknown time.
    pub(crate) const fn new(now: u64) -> Self {
        Self { since: now, requests: 0, per_kilosecond: None }
    }

    /// Adds the requests that were admitted and denied since the last report.
    pub(crate) fn add(&mut self, requests: u64, now: u64) {
        self.requests = self.requests.saturating_add(requests);
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= Self::SHORTEST {
            self.per_kilosecond = Some(per_kilosecond(self.requests, elapsed));
            (self.since, self.requests) = (now, 0);
        }
    }

    /// Returns the requests per 1,000 seconds; `None` until they were collected for two seconds.
    pub(crate) const fn per_kilosecond(&self) -> Option<u64> {
        self.per_kilosecond
    }
}

/// Returns requests per 1,000 seconds, of some that came in a time in µs. Less than a second counts as one.
pub(crate) fn per_kilosecond(requests: u64, micros: u64) -> u64 {
    let rate = u128::from(requests) * 1_000_000_000 / u128::from(micros.max(1_000_000));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_known_after_two_seconds_and_follows_each_report() {
        let mut demand = Demand::new(10_000_000);
        demand.add(30, 11_000_000);
        assert_eq!(demand.per_kilosecond(), None);
        demand.add(30, 12_000_000);
        assert_eq!(demand.per_kilosecond(), Some(30_000));
        demand.add(1, 12_500_000);
        assert_eq!(demand.per_kilosecond(), Some(30_000), "half a second says little");
        demand.add(49, 17_000_000);
        assert_eq!(demand.per_kilosecond(), Some(10_000));
    }

    #[test]
    fn absurd_counts_and_times_are_a_large_demand() {
        let mut demand = Demand::new(u64::MAX);
        demand.add(1 << 63, 0);
        assert_eq!(demand.per_kilosecond(), None, "no time has passed");
        let mut demand = Demand::new(0);
        demand.add(1 << 63, 1);
        demand.add(1 << 63, 2_000_000);
        assert_eq!(demand.per_kilosecond(), Some(u64::MAX));
    }
}
