//! What one policy says about a request.

use std::fmt;

use super::{RetryAfter, span};
use crate::kernel::{NEVER, Rule, Verdict};
use crate::limit::Member;
use crate::name::PolicyName;
use crate::policy::Enforcement;
use crate::time::Span;

/// What one policy says about a request.
#[derive(Clone, Copy)]
pub struct Outcome<'d> {
    numbers: &'d Numbers,
    member: &'d Member,
}

/// The numbers of an outcome.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Numbers {
    /// In the rule's ticks: they are divided when somebody reads them, as a division takes a tenth
    /// of an embedded decision and few callers read all that it says.
    pub(crate) remaining: u64,
    /// The reset time, likewise.
    pub(crate) reset: u64,
    /// In µs the wait if it passes and the retry-after if it is refused; of a refund the units that
    /// came back.
    pub(crate) amount: u64,
    pub(crate) total: u64,
    pub(crate) current: u64,
    pub(crate) violated: u32,
    pub(crate) said: Said,
}

/// What a policy said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    Passes,
    Refuses,
    GaveBack,
}

impl Said {
    /// The word and the amount of a verdict.
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

    /// The policy's name in its limit.
    #[must_use]
    pub const fn name(&self) -> &'d PolicyName {
        self.member.name()
    }

    /// The policy as a member of its limit.
    #[must_use]
    pub const fn member(&self) -> &'d Member {
        self.member
    }

    /// Whether this policy admits the request.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        !matches!(self.numbers.said, Said::Refuses)
    }

    /// Whether the policy is a shadow: reported, but never enforced.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.member.policy().enforcement() == Enforcement::Shadow
    }

    /// The largest cost that a fresh key admits, in units; `None` if unbounded.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        bounded(self.rule().limit())
    }

    /// The largest cost that would be admitted right after this decision, in units; `None` if
    /// unbounded.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        bounded(self.rule().profile().whole_units(self.numbers.remaining))
    }

    /// How long this policy on its own makes the caller wait before it acts.
    #[must_use]
    pub const fn wait(&self) -> Span {
        span(if matches!(self.numbers.said, Said::Passes) { self.numbers.amount } else { 0 })
    }

    /// When the request would pass this policy.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        RetryAfter::of(self.is_admitted(), self.numbers.amount)
    }

    /// The time until the state equals that of a fresh key; `None` if nothing ever flows back.
    #[must_use]
    pub fn reset_after(&self) -> Option<Span> {
        match self.rule().profile().whole_micros(self.numbers.reset) {
            NEVER => None,
            micros => Some(span(micros)),
        }
    }

    /// The units that a refund gave back: as many as counted against the key, at most the cost, and 0 if
    /// none did. One of which a part had flowed back already counts in full. `None` for other
    /// operations, and for a policy that the refund's costs leave alone.
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

    /// The units that count within the (longest) window of a ring or log; 0 for other policies.
    #[must_use]
    pub const fn window_total(&self) -> u64 {
        self.numbers.total
    }

    /// The units in the current slice of a ring; 0 for other policies.
    #[must_use]
    pub const fn current_slice(&self) -> u64 {
        self.numbers.current
    }

    const fn rule(&self) -> &'d Rule {
        self.member.policy().rule()
    }

    /// The tiers of a log that refused, as indices in the order given.
    pub fn violated(&self) -> impl Iterator<Item = usize> + use<> {
        let violated = self.numbers.violated;
        (0..32).filter(move |index| violated & (1 << index) != 0)
    }
}

impl fmt::Debug for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbers { total, current, violated, .. } = self.numbers;
        f.debug_struct("Outcome")
            .field("name", &self.name().as_str())
            .field("admitted", &self.is_admitted())
            .field("remaining", &self.remaining())
            .field("wait", &self.wait())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("total", total)
            .field("current", current)
            .field("violated", violated)
            .field("given_back", &self.given_back())
            .finish()
    }
}

impl PartialEq for Outcome<'_> {
    /// Compares what can be read: less than a unit does not count.
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
