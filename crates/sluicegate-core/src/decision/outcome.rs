//! The result of one policy for a request.

use std::fmt;
use std::time::Duration;

use super::{RetryAfter, time};
use crate::kernel::{NEVER, Rule, Verdict};
use crate::limit::Member;
use crate::name::PolicyName;
use crate::policy::Enforcement;

/// The result of one policy for a request.
#[derive(Clone, Copy)]
pub struct Outcome<'d> {
    numbers: &'d Numbers,
    member: &'d Member,
}

/// The numbers of an outcome.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Numbers {
    /// The remaining units, in the rule's ticks. Ticks are divided only when read: a division takes
    /// a tenth of an embedded decision, and few callers read all numbers.
    pub(crate) remaining: u64,
    /// The time until the reset, in ticks, too.
    pub(crate) reset: u64,
    /// The wait in µs if the policy passes, or the retry-after if it refuses. For a refund, the
    /// units given back.
    pub(crate) amount: u64,
    /// The units used in a window; 0 for other policies.
    pub(crate) used: u64,
    pub(crate) current: u64,
    pub(crate) violated: u32,
    pub(crate) said: Said,
}

impl Numbers {
    /// The numbers of a policy that passes, with nothing remaining.
    pub(super) const NOTHING: Self = Self {
        remaining: 0,
        reset: 0,
        amount: 0,
        used: 0,
        current: 0,
        violated: 0,
        said: Said::Passes,
    };
}

/// The verdict of a policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    Passes,
    Refuses,
    GaveBack,
}

impl Said {
    /// Returns the kind and the amount of a verdict.
    #[inline]
    pub(crate) const fn of(verdict: Verdict) -> (Self, u64) {
        match verdict {
            Verdict::Pass { wait } => (Self::Passes, wait),
            Verdict::Refuse { retry: Some(retry) } => (Self::Refuses, retry),
            Verdict::Refuse { retry: None } => (Self::Refuses, NEVER),
        }
    }
}

impl<'d> Outcome<'d> {
    pub(super) const fn new(numbers: &'d Numbers, member: &'d Member) -> Self {
        Self { numbers, member }
    }

    /// Returns the policy's name in its limit.
    #[must_use]
    pub const fn name(&self) -> &'d PolicyName {
        self.member.name()
    }

    /// Returns the policy as a member of its limit.
    #[must_use]
    pub const fn member(&self) -> &'d Member {
        self.member
    }

    /// Returns `true` if this policy admits the request.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        !matches!(self.numbers.said, Said::Refuses)
    }

    /// Returns `true` if the policy is a shadow: reported, but never enforced.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.member.policy().enforcement() == Enforcement::Shadow
    }

    /// Returns the largest cost that a fresh key admits, in units; `None` if unbounded.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        bounded(self.rule().limit())
    }

    /// Returns the largest cost that would be admitted right after this decision, in units; `None`
    /// if unbounded.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        bounded(self.rule().profile().whole_units(self.numbers.remaining))
    }

    /// Returns the time that this policy alone makes the caller wait before it acts.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        let waits = matches!(self.numbers.said, Said::Passes);
        time(if waits { self.numbers.amount } else { 0 })
    }

    /// Returns when the request would pass this policy.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        RetryAfter::of(self.is_admitted(), self.numbers.amount)
    }

    /// Returns the time until the state equals a fresh key's; `None` if nothing ever flows back.
    #[must_use]
    pub fn reset_after(&self) -> Option<Duration> {
        match self.rule().profile().whole_micros(self.numbers.reset) {
            NEVER => None,
            micros => Some(time(micros)),
        }
    }

    /// Returns the units that a refund gave back: those that counted against the key, at most the
    /// cost.
    ///
    /// A unit that had partly flowed back counts in full. The result is 0 if no units counted.
    /// `None` for other operations, and for a policy without a cost in the refund.
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{Now, step};
    /// # use sluicegate_core::{Cost, Costs, Limit, Operation, Request};
    /// let limit = Limit::new("api", vec!["fixed_window 9/h"])?;
    /// let mut held = [None];
    /// let mut ask = |operation, cost| {
    ///     let request = Request::new(operation, b"alice").costs(Costs::Same(Cost::new(cost).unwrap()));
    ///     let now = Now { micros: 0, max_clock_back: None };
    ///     step(&limit, &request, now, &mut held).map(|step| step.decision)
    /// };
    /// let _ = ask(Operation::Check, 2)?;
    /// let refunded = ask(Operation::Refund, 5)?;
    /// assert_eq!(refunded.outcome("fixed_window").and_then(|outcome| outcome.given_back()), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn given_back(&self) -> Option<u64> {
        match self.numbers.said {
            Said::GaveBack => Some(self.numbers.amount),
            Said::Passes | Said::Refuses => None,
        }
    }

    /// Returns the units used in the current window: of a fixed window, or the longest window of a
    /// log or ring. `None` for other policies.
    ///
    /// The value is that after the operation. It exceeds the limit after a
    /// [charge](crate::Operation::Charge) beyond it, and if the policy
    /// [counts denied requests](crate::Policy::count_denied).
    ///
    /// ```
    /// # use sluicegate_core::for_stores::{Now, step};
    /// # use sluicegate_core::{Limit, Request};
    /// let limit = Limit::new("api", vec!["fixed_window 2/h count_denied"])?;
    /// let mut held = [None];
    /// let now = Now { micros: 0, max_clock_back: None };
    /// for used in 1..=5 {
    ///     let decision = step(&limit, &Request::check(b"alice"), now, &mut held)?.decision;
    ///     assert_eq!(decision.is_allowed(), used <= 2);
    ///     assert_eq!(decision.policy(0).and_then(|outcome| outcome.used()), Some(used));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn used(&self) -> Option<u64> {
        match self.rule() {
            Rule::Window(_) | Rule::Log(_) => Some(self.numbers.used),
            Rule::Bucket(_) | Rule::Counter(_) | Rule::WarmUp(_) | Rule::Permits(_) => None,
        }
    }

    /// Returns the units in the current slice of a ring; 0 for other policies.
    #[must_use]
    pub const fn current_slice(&self) -> u64 {
        self.numbers.current
    }

    const fn rule(&self) -> &'d Rule {
        self.member.policy().rule()
    }

    /// Returns the tiers of a log that refused, as indices in the order given.
    pub fn violated(&self) -> impl Iterator<Item = usize> + use<> {
        let violated = self.numbers.violated;
        (0..32).filter(move |index| violated & (1 << index) != 0)
    }
}

impl fmt::Debug for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbers { current, violated, .. } = self.numbers;
        f.debug_struct("Outcome")
            .field("name", &self.name().as_str())
            .field("admitted", &self.is_admitted())
            .field("remaining", &self.remaining())
            .field("wait", &self.wait())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("used", &self.used())
            .field("current", current)
            .field("violated", violated)
            .field("given_back", &self.given_back())
            .finish()
    }
}

impl PartialEq for Outcome<'_> {
    /// Compares the readable values: a fraction of a unit doesn't count.
    fn eq(&self, other: &Self) -> bool {
        let numbers = |outcome: &Self| Numbers { remaining: 0, reset: 0, ..*outcome.numbers };
        self.member == other.member
            && self.remaining() == other.remaining()
            && self.reset_after() == other.reset_after()
            && numbers(self) == numbers(other)
    }
}

impl Eq for Outcome<'_> {}

const fn bounded(units: u64) -> Option<u64> {
    if units == NEVER { None } else { Some(units) }
}
