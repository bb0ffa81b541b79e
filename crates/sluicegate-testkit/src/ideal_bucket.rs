//! A bucket that is charged every unit at the instant when it is spent, for auditors of simulations.
//!
//! All intervals obey a limit exactly as long as it doesn't overflow.
//!
//! ```
//! use sluicegate_testkit::ideal_bucket::IdealBucket;
//!
//! // Ten units a second, five at once.
//! let mut bucket = IdealBucket::new(10, 1_000_000, 5);
//! assert_eq!(bucket.spend(0, 5), 0);
//! assert_eq!(bucket.spend(99_999, 1), 1, "it comes a microsecond too early");
//! ```

/// A bucket of a limit that is charged every unit at the instant when it is spent.
#[derive(Clone, Debug)]
pub struct IdealBucket {
    count: u128,
    period: u128,
    burst: u128,
    /// The used units. A unit is a period, and a microsecond refills the count.
    level: u128,
    at: u64,
}

impl IdealBucket {
    /// Makes a full bucket of `count` units in each `period` in microseconds.
    #[must_use]
    pub fn new(count: u64, period: u64, burst: u64) -> Self {
        let [count, period, burst] = [count, period, burst].map(u128::from);
        Self { count, period, burst, level: 0, at: 0 }
    }

    /// Charges units at an instant, not before the last one. Returns the number of units that are too many then.
    pub fn spend(&mut self, at: u64, units: u64) -> u64 {
        let refilled = u128::from(at - self.at) * self.count;
        self.level = self.level.saturating_sub(refilled) + u128::from(units) * self.period;
        self.at = at;
        let over = self.level.saturating_sub(self.burst * self.period).div_ceil(self.period);
        u64::try_from(over).unwrap_or(u64::MAX)
    }
}
