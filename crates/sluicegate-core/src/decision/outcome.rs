//! What one policy says.

use std::fmt;

use super::{RetryAfter, span};
use crate::kernel::NEVER;
use crate::limit::Member;
use crate::name::PolicyName;
use crate::policy::Enforcement;
use crate::time::Span;

/// What one policy of a decision says.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Outcome<'d> {
    numbers: &'d Numbers,
    member: &'d Member,
}

/// The numbers of an outcome.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) remaining: u64,
    /// When admitted the wait, else the retry, in µs.
    pub(crate) delay: u64,
    pub(crate) reset: u64,
    pub(crate) total: u64,
    pub(crate) current: u64,
    pub(crate) violated: u32,
    pub(crate) admitted: bool,
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

    /// The policy with its place in the limit.
    #[must_use]
    pub const fn member(&self) -> &'d Member {
        self.member
    }

    /// Whether this policy admits the request.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.numbers.admitted
    }

    /// Whether the policy only watches.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.member.policy().enforcement() == Enforcement::Shadow
    }

    /// The largest cost a fresh key admits; `None` when unbounded.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        bounded(self.member.policy().rule().limit())
    }

    /// The largest cost that would be admitted right now, after this decision; `None` when
    /// unbounded.
    #[must_use]
    pub const fn remaining(&self) -> Option<u64> {
        bounded(self.numbers.remaining)
    }

    /// How long this policy alone would make the caller wait before it acts.
    #[must_use]
    pub const fn wait(&self) -> Span {
        span(if self.numbers.admitted { self.numbers.delay } else { 0 })
    }

    /// When the request would pass this policy.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        RetryAfter::of(self.numbers.admitted, self.numbers.delay)
    }

    /// The least time until the state equals a fresh key's; `None` when nothing flows back.
    #[must_use]
    pub const fn reset_after(&self) -> Option<Span> {
        match self.numbers.reset {
            NEVER => None,
            micros => Some(span(micros)),
        }
    }

    /// Of a ring or log: the units that count now over its (longest) window.
    #[must_use]
    pub const fn window_total(&self) -> u64 {
        self.numbers.total
    }

    /// Of a ring: the units in the current slice.
    #[must_use]
    pub const fn current_slice(&self) -> u64 {
        self.numbers.current
    }

    /// Of a log: the strategies that refused, as indices in the order given.
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
            .finish()
    }
}

const fn bounded(units: u64) -> Option<u64> {
    if units == NEVER { None } else { Some(units) }
}
