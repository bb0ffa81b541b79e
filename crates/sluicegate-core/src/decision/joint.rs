//! Joins several separate decisions into one.

use smallvec::SmallVec;

use super::{Banned, Decision, NEVER, Numbers, Paused, Said, Warnings, refused};
use crate::limit::{Limit, Member};
use crate::policy::Enforcement;
use crate::request::{Operation, Request};

/// The decision about some parts of a limit.
#[derive(Clone, Copy, Debug)]
pub struct Share<'d> {
    /// The decision on the limit that [has only](Limit::only) those parts.
    pub decision: &'d Decision,
    /// The indices of its policies in the whole limit.
    pub members: &'d [usize],
    /// The decision of these policies after units were given back, if any were.
    pub afterwards: Option<&'d Decision>,
}

/// Joins the decisions on the parts of a limit.
pub(super) fn joint(limit: &Limit, request: &Request<'_>, shares: &[Share<'_>]) -> Decision {
    let mut policies: SmallVec<[Numbers; 3]> = SmallVec::new();
    policies.resize(limit.members().len(), Numbers::NOTHING);
    let mut warnings = Warnings::default();
    let (mut allowed, mut forgotten) = (true, None);
    let (mut instant, mut granted) = (NEVER, None);
    // The earliest: on a cluster each slot has its own clock.
    let evaluated = shares.iter().map(|share| share.decision.evaluated).min();
    let (mut ban, mut latest): (Option<Banned>, u64) = (None, 0);
    let mut pause: Option<Paused> = None;
    for share in shares {
        let Share { decision, members, afterwards } = share;
        allowed &= decision.allowed;
        if !decision.allowed {
            latest = latest.max(decision.instant);
        }
        if let Some(banned) = decision.ban_of(limit) {
            let is_first = |known: Banned| match (known.begins, banned.begins) {
                (false, true) => known,
                (true, false) => banned,
                _ => known.longer(banned),
            };
            ban = Some(ban.map_or(banned, is_first));
        }
        if let Some(paused) = decision.pause_of(limit, members) {
            pause = Some(pause.map_or(paused, |known| known.longer(paused)));
        }
        for each in [Some(*decision), *afterwards].into_iter().flatten() {
            warnings.restamped |= each.warnings.restamped;
            warnings.discarded |= each.warnings.discarded;
            warnings.full |= each.warnings.full;
        }
        if let Some(share) = decision.forgotten {
            forgotten = Some(forgotten.unwrap_or(false) | share);
        }
        if let Some(taken_at) = decision.taken_at() {
            instant = instant.min(taken_at.as_micros());
        }
        for (index, &member) in members.iter().enumerate() {
            let Some(numbers) = decision.policies.get(index) else { continue };
            let left = afterwards.and_then(|after| after.policies.get(index));
            let left = left.unwrap_or(numbers);
            policies[member] = Numbers {
                remaining: left.remaining,
                reset: left.reset,
                used: left.used,
                current: left.current,
                ..*numbers
            };
            let is_charged = request.cost_of(limit, member) > 0;
            if is_charged && is_enforced(limit, member) {
                let least = granted.unwrap_or(decision.granted);
                granted = Some(decision.granted.min(least));
            }
        }
    }
    let granted = match (request.operation(), granted) {
        (operation, _) if !operation.grants() || !allowed => 0,
        (Operation::Take, Some(least)) => least,
        _ => asked(limit, request),
    };
    let binding = if allowed { None } else { binding(limit, &policies, |_| true) };
    if !allowed {
        instant = binding.map_or(NEVER, |(_, retry)| retry);
    }
    let binding = binding.map(|(index, _)| u8::try_from(index).unwrap_or(u8::MAX));
    let refusing = ban.filter(|ban| !ban.begins);
    let is_refused = !allowed && (refusing.is_some() || pause.is_some());
    let mut joint = if is_refused {
        // Another part that refused may take longer.
        let mut joint = refused::refused(limit, refusing, pause, false);
        joint.instant = latest;
        joint
    } else {
        Decision::new(limit.clone(), policies, allowed, granted, instant, binding)
            .evaluated_at_micros(evaluated.unwrap_or(NEVER))
    };
    if let Some(banned) = ban.filter(|ban| ban.begins && !is_refused) {
        joint.begin_ban(banned);
    }
    joint.warnings = warnings;
    joint.forgotten = forgotten;
    joint
}

impl Decision {
    /// Returns the share's ban, with the index of its part in the whole limit.
    fn ban_of(&self, whole: &Limit) -> Option<Banned> {
        let (ban, name) = (self.ban()?, self.banned_by()?);
        let part = whole.parts().iter().position(|part| part == name)?;
        Some(Banned { part, ..ban })
    }

    /// Returns the share's pause, with the indices of its part and policy in the whole limit.
    fn pause_of(&self, whole: &Limit, members: &[usize]) -> Option<Paused> {
        let (pause, name) = (self.pause()?, self.paused_by()?);
        let part = whole.parts().iter().position(|part| part == name)?;
        let policy = pause.policy.and_then(|policy| members.get(policy).copied());
        Some(Paused { part, policy, ..pause })
    }
}

/// Returns the refusing policy in question with the longest retry-after, the first of equals.
pub(super) fn binding(
    limit: &Limit,
    policies: &[Numbers],
    is_in_question: impl Fn(&Member) -> bool,
) -> Option<(usize, u64)> {
    let refused =
        policies.iter().zip(limit.members()).enumerate().filter(|(_, (numbers, member))| {
            numbers.said == Said::Refuses
                && member.policy().enforcement() == Enforcement::Enforced
                && is_in_question(member)
        });
    refused
        .map(|(index, (numbers, _))| (index, numbers.amount))
        .reduce(|longest, next| if next.1 > longest.1 { next } else { longest })
}

/// Returns the units granted to an allowed request: its cost, or the shadows' cost if no policy is
/// enforced.
pub(super) fn asked(limit: &Limit, request: &Request<'_>) -> u64 {
    let indices = 0..limit.members().len();
    let most = |only_enforced: bool| {
        let counted = indices.clone().filter(|&index| !only_enforced || is_enforced(limit, index));
        counted.map(|index| request.cost_of(limit, index)).max().unwrap_or(0)
    };
    match most(true) {
        0 => most(false),
        enforced => enforced,
    }
}

fn is_enforced(limit: &Limit, index: usize) -> bool {
    limit.members()[index].policy().enforcement() == Enforcement::Enforced
}
