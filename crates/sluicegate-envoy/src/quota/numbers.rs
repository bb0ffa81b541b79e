//! The numbers of a limit as token buckets of Envoy.

use sluicegate_core::for_stores::Pace;
use sluicegate_core::{Algorithm, Limit, MAX_EXACT};

/// The numbers of a limit whose rate can be shared, in requests.
///
/// A share is a token bucket with a whole number of tokens per fill interval. The interval is fixed for the limit, because
/// Envoy overlooks a change of it alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Numbers {
    /// Units per period.
    count: u64,
    /// The period of the rate, in µs.
    period: u64,
    /// Maximum number of units at one instant.
    burst: u64,
    /// Units that a request takes.
    cost: u64,
    /// Seconds between fills.
    interval: u64,
}

/// All of a limit's rate, in millionths.
const WHOLE: u128 = Pace::WHOLE as u128;
const MICROS: u128 = 1_000_000;
/// The minimum number of tokens in one fill of the whole rate, so that shares aren't too coarse.
const LEAST_FILL: u128 = 100;
/// The maximum number of seconds between fills.
const LONGEST_INTERVAL: u64 = 10_000_000;

impl Numbers {
    /// Returns the numbers of a limit; `None` if its rate can't be shared.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        if !limit.can_pace() {
            return None;
        }
        let policy = limit.members().first()?.policy();
        let (rate, burst) = match policy.algorithm() {
            Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
                (rate, burst)
            }
            Algorithm::LeakyBucket { rate, capacity } => (rate, capacity),
            _ => return None,
        };
        let period = u64::try_from(rate.period().as_micros()).ok()?;
        Self::new(rate.count(), period, *burst, policy.cost().get())
    }

    fn new(count: u64, period: u64, burst: u64, cost: u64) -> Option<Self> {
        if count == 0 || period == 0 || cost == 0 || burst < cost {
            return None;
        }
        let mut numbers = Self { count, period, burst, cost, interval: 1 };
        while u128::from(numbers.tokens_of(Pace::WHOLE)) < LEAST_FILL
            && numbers.interval < LONGEST_INTERVAL
        {
            numbers.interval *= 10;
        }
        (numbers.least() <= Pace::MOST).then_some(numbers)
    }

    /// Returns the seconds between fills.
    pub(crate) const fn interval(&self) -> u64 {
        self.interval
    }

    /// Returns the tokens per fill of a share, rounded down.
    pub(crate) fn tokens_of(&self, share: u64) -> u64 {
        let (units, time) = self.fill();
        // At most 2^53 × 2^47 × 2^20.
        let tokens = u128::from(share) * units / (WHOLE * time);
        u64::try_from(tokens).unwrap_or(u64::MAX).min(u64::from(u32::MAX))
    }

    /// Returns the share of a number of tokens per fill, rounded up, and at most [`Pace::MOST`] + 1.
    pub(crate) fn share_of(&self, tokens: u64) -> u64 {
        let (units, time) = self.fill();
        let share = (u128::from(tokens) * WHOLE).saturating_mul(time).div_ceil(units);
        u64::try_from(share).unwrap_or(u64::MAX).min(Pace::MOST + 1)
    }

    /// Returns the smallest useful share: one token per fill.
    pub(crate) fn least(&self) -> u64 {
        self.share_of(1)
    }

    /// Returns the maximum number of tokens in the bucket of a share.
    ///
    /// The share admits as many in a quarter of a second. At most, it is an eighth of the share's part of the burst, and
    /// at least 1.
    pub(crate) fn max_tokens(&self, share: u64) -> u64 {
        let (units, time) = self.fill();
        let quarter = u128::from(share) * units / (WHOLE * time * 4 * u128::from(self.interval));
        let eighth =
            u128::from(share) * u128::from(self.burst) / (WHOLE * 8 * u128::from(self.cost));
        let tokens = quarter.min(eighth).clamp(1, u128::from(u32::MAX));
        u64::try_from(tokens).unwrap_or(1)
    }

    /// Returns the units of a number of tokens.
    pub(crate) fn units_of(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.cost).min(MAX_EXACT)
    }

    /// Returns the share that a demand needs: a tenth more, and one token per fill.
    ///
    /// A demand is in requests per 1,000 seconds.
    pub(crate) fn need_of(&self, demand: u64) -> u64 {
        let tokens = u128::from(demand) * u128::from(self.interval) * 11 / 10_000 + 1;
        self.share_of(u64::try_from(tokens).unwrap_or(u64::MAX)).min(Pace::MOST)
    }

    /// Returns the requests per 1,000 seconds of a share.
    pub(crate) fn demand_of(&self, share: u64) -> u64 {
        let (units, time) = self.fill();
        let per_fill =
            u128::from(share) * units * 1_000 / (WHOLE * time * u128::from(self.interval));
        u64::try_from(per_fill).unwrap_or(u64::MAX)
    }

    /// Returns the tokens of a fill at the whole rate as a fraction.
    fn fill(&self) -> (u128, u128) {
        let units = u128::from(self.count) * u128::from(self.interval) * MICROS;
        (units, u128::from(self.period) * u128::from(self.cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(policy: &str) -> Option<Numbers> {
        Numbers::of(&Limit::new("fleet", [policy]).unwrap())
    }

    #[test]
    fn only_one_bucket_with_a_rate_can_be_shared() {
        for policy in ["fixed_window 100/s", "gcra 0/s burst 5", "concurrency 5 hold 30s"] {
            assert_eq!(of(policy), None, "{policy}");
        }
        let two = Limit::new("fleet", ["gcra 1/s", "gcra 9/min"]).unwrap();
        assert_eq!(Numbers::of(&two), None);
    }

    #[test]
    fn a_share_is_a_whole_number_of_tokens_and_never_more_than_the_share() {
        for policy in [
            "token_bucket 500/s burst 5000",
            "gcra 100/min burst 10",
            "leaky_bucket 7/s capacity 3",
            "gcra 3/d burst 1",
            "token_bucket 1000000000/s burst 1000000000",
            "token_bucket 1000/s burst 100 cost 7",
        ] {
            let numbers = of(policy).unwrap();
            for tokens in [1, 2, 3, 50, 97] {
                let share = numbers.share_of(tokens);
                assert!(numbers.tokens_of(share) >= tokens, "{policy}: {tokens} of {share}");
                assert!(numbers.tokens_of(share - 1) < tokens, "{policy}: {tokens} of {share}");
            }
        }
    }

    #[test]
    fn slow_limits_fill_rarely_and_have_a_hundred_tokens_a_fill() {
        for (policy, interval, tokens) in [
            ("token_bucket 500/s burst 5000", 1, 495),
            ("token_bucket 100/s burst 5000", 1, 99),
            ("gcra 100/min burst 10", 100, 165),
            ("gcra 10/d burst 1", 1_000_000, 114),
            ("token_bucket 1000/s burst 100 cost 5", 1, 198),
        ] {
            let numbers = of(policy).unwrap();
            assert_eq!(numbers.interval(), interval, "{policy}");
            assert_eq!(numbers.tokens_of(Pace::MOST), tokens, "{policy}");
        }
    }

    #[test]
    fn a_burst_is_a_quarter_of_a_second_and_an_eighth_of_the_limits_burst_in_all() {
        let numbers = of("token_bucket 500/s burst 5000").unwrap();
        assert_eq!(numbers.max_tokens(100_000), 12);
        let small = of("token_bucket 500/s burst 100").unwrap();
        assert_eq!(small.max_tokens(980_000), 12, "an eighth of 98");
        assert_eq!(small.max_tokens(1_000), 1);
        let costly = of("token_bucket 500/s burst 5000 cost 5").unwrap();
        assert_eq!((costly.max_tokens(980_000), costly.units_of(24)), (24, 120));
    }

    #[test]
    fn a_need_is_a_tenth_and_a_token_more_than_the_demand() {
        let numbers = of("token_bucket 500/s burst 5000").unwrap();
        assert_eq!(numbers.tokens_of(numbers.need_of(100_000)), 111);
        assert_eq!(numbers.need_of(u64::MAX), Pace::MOST);
        assert_eq!(numbers.demand_of(200_000), 100_000);
    }
}
