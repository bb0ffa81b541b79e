//! What is asked of a store: an operation on one subject, with its costs.

use crate::number::Cost;
use crate::time::{Span, Timestamp};

/// One question to a store.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The subject: any bytes.
    pub key: &'a [u8],
    /// The subjects of the further parts of a limit that is several together
    /// ([`Limit::together`](crate::Limit::together)); empty for any other.
    pub also: &'a [&'a [u8]],
    /// What to do.
    pub operation: Operation,
    /// What it costs under each policy.
    pub costs: Costs<'a>,
    /// The time to judge by, for a limit that was opened with [`TimeSource::Injected`]; otherwise
    /// `None`, and the store's clock counts.
    pub at: Option<Timestamp>,
}

impl<'a> Request<'a> {
    /// The subject of a part, by its index in [`Limit::parts`](crate::Limit::parts).
    #[must_use]
    pub fn subject(&self, part: usize) -> &'a [u8] {
        match part.checked_sub(1) {
            Some(also) => self.also.get(also).copied().unwrap_or_default(),
            None => self.key,
        }
    }

    /// A check of `key` at the policies' own costs, by the store's clock.
    #[must_use]
    pub const fn check(key: &'a [u8]) -> Self {
        Self { key, also: &[], operation: Operation::Check, costs: Costs::Own, at: None }
    }
}

/// What to do with a subject's states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Take the cost by force, into debt.
    Charge,
    /// Take the cost, or be denied.
    Check,
    /// Answer like a check; write nothing.
    Peek,
    /// Give the cost back.
    Refund,
    /// Take the cost now and be told when to act. Only for limits of the bucket family.
    Reserve {
        /// The longest wait the caller accepts.
        within: Span,
    },
    /// Forget the subject.
    Reset,
    /// Take as much as every policy admits, up to the cost.
    TakeUpTo,
}

/// What a request costs under each policy of its limit.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Costs<'a> {
    /// What each policy says by itself.
    Own,
    /// The same for all.
    Same(Cost),
    /// One number per policy, in the order of the limit, each at most 2^53 − 1. 0: not charged,
    /// and never a reason to refuse.
    Each(&'a [u64]),
}

/// Whose time requests are judged by.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TimeSource {
    /// The store's own clock.
    #[default]
    Store,
    /// The time that each request carries: replay, conformance, simulation. `run` names the
    /// states of this run, which are apart from everything else; a fresh name for every run.
    Injected {
        /// Any text that no other run has.
        run: String,
    },
}
