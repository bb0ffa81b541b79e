//! Decisions of another process, built from its report.

use smallvec::SmallVec;

use super::joint::asked;
use super::{Banned, Decision, NEVER, Numbers, Paused, RetryAfter, Said, Source, Warnings};
use crate::limit::Limit;
use crate::request::{Operation, Request};
use crate::time::Span;

/// A decision as another process reported it, such as a service.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The origin of the decision.
    pub source: Source,
    /// When a denied request may be tried again.
    pub retry_after: RetryAfter,
    /// The index of the binding policy in [`Limit::members`].
    pub binding: Option<usize>,
    /// For a take, the units that were granted.
    pub granted: Option<u64>,
    /// For a reset, whether a state was deleted. For lifting a ban or ending pauses, whether there
    /// was one.
    pub forgotten: Option<bool>,
    /// The ban that refuses the request, or begins with it.
    pub ban: Option<Banned>,
    /// The pause that refuses the request, or that the request has set.
    pub pause: Option<Paused>,
    /// Whether the decision repeats an earlier one, for the request's id.
    pub is_repeat: bool,
    /// The irregularities that the store noticed.
    pub warnings: Warnings,
    /// The outcome of each policy, in the order of the limit. Empty if no policy was evaluated.
    pub policies: &'a [ToldOutcome],
}

/// The outcome of one policy as another process reported it.
#[derive(Clone, Copy, Debug)]
pub struct ToldOutcome {
    /// When the request would pass; [`RetryAfter::NotRefused`] if the policy admits it.
    pub retry_after: RetryAfter,
    /// The largest cost that would be admitted now; `None` if unbounded.
    pub remaining: Option<u64>,
    /// The time until the state equals a fresh key's; `None` if nothing ever flows back.
    pub reset_after: Option<Span>,
    /// The time that the policy makes the caller wait.
    pub wait: Span,
    /// For a refund, the units given back.
    pub given_back: Option<u64>,
    /// The units used in the window of a fixed window, log or ring; 0 for other policies.
    pub used: u64,
    /// The units in the current slice of a ring.
    pub current_slice: u64,
    /// The tiers of a log that refused, as bits.
    pub violated: u32,
}

/// Builds the decision that another process made, from its report.
pub(super) fn told(limit: &Limit, request: &Request<'_>, told: &Told<'_>) -> Decision {
    let mut decision = Decision::without_policies(told.source, told.allowed);
    if told.source != Source::Bypass {
        decision.limit = Some(limit.clone());
    }
    decision.warnings = told.warnings;
    decision.forgotten = told.forgotten;
    if !told.allowed {
        decision.instant = told.retry_after.as_micros().unwrap_or(NEVER);
        decision.binding = told.binding.and_then(|index| u8::try_from(index).ok());
    }
    decision.granted = match (request.operation(), told.granted) {
        (Operation::Take, Some(granted)) => granted,
        (operation, _) if operation.grants() && told.allowed && !told.policies.is_empty() => {
            asked(limit, request)
        }
        _ => 0,
    };
    let members = limit.members().iter().zip(told.policies);
    let policies: SmallVec<[Numbers; 3]> = members
        .map(|(member, outcome)| {
            let rule = member.policy().rule().profile();
            let (said, amount) = match (outcome.given_back, outcome.retry_after) {
                (Some(units), _) => (Said::GaveBack, units),
                (None, RetryAfter::NotRefused) => (Said::Passes, outcome.wait.as_micros()),
                (None, retry) => (Said::Refuses, retry.as_micros().unwrap_or(NEVER)),
            };
            Numbers {
                remaining: outcome.remaining.map_or(NEVER, |units| rule.ticks_of(units)),
                reset: outcome
                    .reset_after
                    .map_or(NEVER, |span| rule.ticks_of_micros(span.as_micros())),
                amount,
                used: outcome.used,
                current: outcome.current_slice,
                violated: outcome.violated,
                said,
            }
        })
        .collect();
    decision.policies = policies;
    if let Some(ban) = told.ban {
        decision.extras_mut().ban = Some(ban);
    }
    if let Some(pause) = told.pause {
        decision.extras_mut().pause = Some(pause);
    }
    if told.is_repeat {
        decision.extras_mut().repeat = true;
    }
    decision
}
