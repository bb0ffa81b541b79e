//! One rule: an algorithm with its parameters, a name, and what a request costs under it.

mod into_policy;
mod text;

pub use into_policy::IntoPolicy;

use std::time::Duration;

use crate::algorithm::{Algorithm, LogTier, Queue, Start, Window};
use crate::error::PolicyError;
use crate::kernel::{Quota, Rule};
use crate::name::PolicyName;
use crate::number::Cost;
use crate::rate::Rate;

/// Whether a policy is enforced or only evaluated.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Enforcement {
    /// If this policy refuses, the request is denied.
    #[default]
    Enforced,
    /// Evaluated, charged and reported as if it were the only policy; never refuses anything.
    Shadow,
}

/// Whether denied requests are charged.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum DeniedCharge {
    /// A denied request changes nothing.
    #[default]
    Free,
    /// A denied request is charged, too, up to the policy's limit. A client that keeps retrying
    /// keeps the policy exhausted, but never puts it into debt.
    Charged,
    /// A denied request is counted in full, beyond the policy's limit too. Only a fixed window does
    /// this.
    Counted,
}

/// One rule of a limit.
///
/// Built by one constructor per algorithm, or parsed from a spec. Both check the numbers, so that
/// every store can compute exactly with a policy.
///
/// ```
/// use sluicegate_core::{Policy, Rate};
///
/// let policy = Policy::token_bucket(Rate::per_second(100), 200)?;
/// assert_eq!(policy.to_string(), "token_bucket 100/s burst 200");
/// assert_eq!(policy, "token_bucket 100/s burst 200".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Policy {
    algorithm: Algorithm,
    rule: Rule,
    name: Option<PolicyName>,
    cost: Cost,
    enforcement: Enforcement,
    denied_charge: DeniedCharge,
}

impl Policy {
    /// Creates a policy of any algorithm. Lengths of time are rounded up to whole microseconds.
    ///
    /// # Errors
    /// Returns an error if a number is out of range or can't be computed with exactly. The error
    /// names the parameter and, for a rate, the nearest valid rates.
    pub fn new(algorithm: Algorithm) -> Result<Self, PolicyError> {
        let algorithm = algorithm.rounded();
        let rule = Rule::new(&algorithm)?;
        Ok(Self {
            algorithm,
            rule,
            name: None,
            cost: Cost::ONE,
            enforcement: Enforcement::Enforced,
            denied_charge: DeniedCharge::Free,
        })
    }

    /// Replaces the algorithm and its numbers, and keeps the name, the cost and all other settings.
    ///
    /// ```
    /// use sluicegate_core::{Algorithm, Policy, Rate};
    ///
    /// let policy: Policy = "gcra 10/s burst 5 cost 2 shadow".parse()?;
    /// let slower = Algorithm::Gcra { rate: Rate::per_second(5), burst: 2 };
    /// assert_eq!(policy.with_algorithm(slower)?.to_string(), "gcra 5/s burst 2 cost 2 shadow");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`]. Also returns an error if the policy
    /// [counts denied requests](Self::count_denied) and the algorithm isn't a fixed window.
    pub fn with_algorithm(&self, algorithm: Algorithm) -> Result<Self, PolicyError> {
        let algorithm = algorithm.rounded();
        let rule = Rule::new(&algorithm)?;
        let policy = Self { algorithm, rule, ..self.clone() };
        if policy.denied_charge == DeniedCharge::Counted {
            policy.count_denied()
        } else {
            Ok(policy)
        }
    }

    /// Creates a token bucket that starts full with `burst` tokens.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn token_bucket(rate: Rate, burst: u64) -> Result<Self, PolicyError> {
        Self::new(Algorithm::TokenBucket { rate, burst })
    }

    /// Creates a limit of `permits` units in flight. Each is held for at most `hold` unless it is
    /// renewed.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn concurrency(permits: u64, hold: Duration) -> Result<Self, PolicyError> {
        Self::new(Algorithm::Concurrency { permits, hold, queue: None })
    }

    /// Creates a limit of `permits` units in flight, with a queue for requests that find too few
    /// units.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_core::{Policy, Queue};
    ///
    /// let queue = Queue { length: 100, priorities: 2 };
    /// let policy = Policy::queued_concurrency(10, Duration::from_secs(60), queue)?;
    /// assert_eq!(policy.to_string(), "concurrency 10 hold 1min queue 100 priorities 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn queued_concurrency(
        permits: u64,
        hold: Duration,
        queue: Queue,
    ) -> Result<Self, PolicyError> {
        Self::new(Algorithm::Concurrency { permits, hold, queue: Some(queue) })
    }

    /// Creates a GCRA policy, which gives the same answers as a token bucket.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn gcra(rate: Rate, burst: u64) -> Result<Self, PolicyError> {
        Self::new(Algorithm::Gcra { rate, burst })
    }

    /// Creates a leaky bucket as a meter: at most `capacity` units that drain at `rate`.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn leaky_bucket(rate: Rate, capacity: u64) -> Result<Self, PolicyError> {
        Self::new(Algorithm::LeakyBucket { rate, capacity })
    }

    /// Creates a leaky bucket as a queue, which schedules each request.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn shaper(rate: Rate, queue: u64) -> Result<Self, PolicyError> {
        Self::new(Algorithm::Shaper { rate, queue })
    }

    /// Creates Guava's smooth bursty limiter: a request of any size passes once the debt of earlier
    /// ones is paid.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn smooth(rate: Rate, burst: Duration, start: Start) -> Result<Self, PolicyError> {
        Self::new(Algorithm::Smooth { rate, burst, start })
    }

    /// Creates Guava's smooth warming-up limiter, with a cold factor of 3.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn warm_up(rate: Rate, over: Duration) -> Result<Self, PolicyError> {
        Self::new(Algorithm::WarmUp { rate, over })
    }

    /// Creates a fixed window of at most `limit` units.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn fixed_window(limit: u64, window: Window) -> Result<Self, PolicyError> {
        Self::new(Algorithm::FixedWindow { limit, window })
    }

    /// Creates a sliding window of at most `limit` units, with `slices` slices.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`]. Also returns an error if `slices` doesn't divide the
    /// window into whole milliseconds.
    pub fn sliding_window(limit: u64, window: Duration, slices: u64) -> Result<Self, PolicyError> {
        Self::new(Algorithm::SlidingWindow { limit, window, slices })
    }

    /// Creates a sliding window of at most `limit` units, estimated by two counters.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`].
    pub fn sliding_counter(limit: u64, window: Duration) -> Result<Self, PolicyError> {
        Self::new(Algorithm::SlidingCounter { limit, window })
    }

    /// Creates an exact sliding log with 1 to 32 tiers.
    ///
    /// # Errors
    /// Returns the errors of [`Policy::new`]. Also returns an error if there is no tier, or one
    /// with a limit above 65,536.
    pub fn sliding_log(tiers: impl Into<Vec<LogTier>>) -> Result<Self, PolicyError> {
        Self::new(Algorithm::SlidingLog { tiers: tiers.into() })
    }

    /// Sets the name.
    #[must_use]
    pub fn named(mut self, name: PolicyName) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets the cost of a request that doesn't set its own.
    #[must_use]
    pub const fn with_cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Makes the policy a shadow: evaluated and reported as if it were the only policy, never
    /// enforced.
    #[must_use]
    pub const fn shadow(mut self) -> Self {
        self.enforcement = Enforcement::Shadow;
        self
    }

    /// Charges denied requests, too, up to the policy's limit.
    #[must_use]
    pub const fn charge_denied(mut self) -> Self {
        self.denied_charge = DeniedCharge::Charged;
        self
    }

    /// Counts denied requests, too, each with its whole cost, beyond the policy's limit.
    ///
    /// The count stops at 2^53 − 1. [`Outcome::used`](crate::Outcome::used) has it. This replaces
    /// [`charge_denied`](Self::charge_denied).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use sluicegate_core::{Policy, Window};
    ///
    /// let policy = Policy::fixed_window(10, Window::Aligned(Duration::from_secs(3600)))?.count_denied()?;
    /// assert_eq!(policy.to_string(), "fixed_window 10/h aligned count_denied");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error unless the policy is a fixed window.
    pub fn count_denied(mut self) -> Result<Self, PolicyError> {
        if !matches!(self.rule, Rule::Window(_)) {
            let keyword = self.algorithm.keyword();
            let problem = format!("only a fixed_window counts denied requests, not a {keyword}");
            return Err(PolicyError::new("count_denied", problem));
        }
        self.denied_charge = DeniedCharge::Counted;
        Ok(self)
    }

    /// Returns the algorithm with its parameters as given.
    #[must_use]
    pub const fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// Returns the rule that decides: the algorithm with reduced numbers.
    #[must_use]
    pub const fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Returns the policy's numbers as reported to clients.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.rule.quota(&self.algorithm)
    }

    /// Returns the name given with `as` or [`Policy::named`].
    ///
    /// A limit names a policy without one after its algorithm.
    #[must_use]
    pub const fn name(&self) -> Option<&PolicyName> {
        self.name.as_ref()
    }

    /// Returns the cost of a request that doesn't set its own, in units.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns whether the policy is enforced or only evaluated.
    #[must_use]
    pub const fn enforcement(&self) -> Enforcement {
        self.enforcement
    }

    /// Returns whether denied requests are charged.
    #[must_use]
    pub const fn denied_charge(&self) -> DeniedCharge {
        self.denied_charge
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    #[test]
    fn a_quota_is_what_a_fresh_key_admits_and_the_time_until_as_much_is_there_again() {
        for (spec, units, window) in [
            ("token_bucket 10/s burst 25", 25, Some("2500ms")),
            ("gcra 4/min burst 2", 2, Some("30s")),
            ("leaky_bucket 5/s capacity 20", 20, Some("4s")),
            ("shaper 5/s queue 9", 10, Some("2s")),
            ("smooth 7/10s burst 1s", 7, Some("10s")),
            ("token_bucket 0/s burst 3", 3, None),
            ("warmup 5/2s over 10s", 5, Some("2s")),
            ("fixed_window 6/h", 6, Some("1h")),
            ("fixed_window 6/d aligned", 6, Some("1d")),
            ("fixed_window 6/d calendar UTC", 6, Some("1d")),
            ("fixed_window 6/w calendar UTC", 6, Some("1w")),
            ("fixed_window 6/month calendar UTC", 6, Some("31d")),
            ("fixed_window 6/year calendar UTC", 6, Some("366d")),
            ("sliding_counter 8/min", 8, Some("1min")),
            ("sliding_window 8/min slices 6", 8, Some("1min")),
            ("sliding_log 10/s and 5/h and 20/d", 5, Some("1h")),
            ("sliding_log 5/s and 5/h", 5, Some("1h")),
        ] {
            let quota = spec.parse::<Policy>().map(|policy| policy.quota());
            let window = window.map(|window| window.parse::<Span>().unwrap().into());
            assert_eq!(quota, Ok(Quota { units, window }), "{spec}");
        }
    }

    #[test]
    fn lengths_of_time_are_rounded_up_to_microseconds_and_refused_out_of_range() {
        let nanos = Duration::from_nanos;
        let policy = Policy::sliding_counter(6, nanos(1_500_000_001)).unwrap();
        assert_eq!(policy.to_string(), "sliding_counter 6/1500001us");
        assert_eq!(policy.to_string().parse(), Ok(policy));
        let log = Policy::sliding_log([LogTier { limit: 6, window: nanos(1) }]).unwrap();
        assert_eq!(log, "sliding_log 6/us".parse().unwrap());
        assert_eq!(Rate::new(6, nanos(999)).unwrap().period(), Duration::from_micros(1));

        let years = Duration::from_secs(1_000 * 366 * 24 * 60 * 60);
        for (window, expected) in [(Duration::ZERO, "0s"), (years, "9007199254740991us")] {
            let error = Policy::sliding_counter(6, window).unwrap_err().to_string();
            assert!(error.contains(&format!("{expected} is not from 1us to 36525d")), "{error}");
        }
        for (period, expected) in [(Duration::ZERO, "must be at least 1us"), (years, "285 years")] {
            let error = Rate::new(6, period).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = Policy::concurrency(6, years).unwrap_err().to_string();
        assert!(error.contains("a permit is held for 1ms to 1d"), "{error}");
    }
}
