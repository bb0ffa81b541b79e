//! A decision in parts: one row for each of its limits.

use std::borrow::Cow;
use std::time::Instant;

use sluicegate::admin::{Answered, Settled};
use sluicegate::decision::Source;
use sluicegate::policy::LimitName;
use sluicegate::store::{Costs, Operation};
use sluicegate::{Decision, Limit, Outcome};

/// A decision as an observer sees it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) decision: &'a Decision,
    pub(super) operation: Operation<'a>,
    pub(super) at: Instant,
    limit: &'a Limit,
    keys: &'a [&'a [u8]],
    unasked: &'a [(LimitName, Cow<'a, [u8]>)],
    /// The costs under each policy; `None` if the operation has none.
    costs: Option<Costs<'a>>,
}

/// The role of one limit in a decision.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) seen: &'a Seen<'a>,
    pub(super) limit: &'a LimitName,
    pub(super) key: &'a [u8],
    /// Index of the limit among those that were decided together; `None` if it wasn't asked.
    part: Option<usize>,
}

/// The costs of a request under the policies of one limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RowCost {
    /// None: the operation has no cost, or the limit no part in it.
    None,
    /// One for all policies.
    Same(u64),
    /// A different one for some policies.
    Each,
}

impl<'a> Seen<'a> {
    /// Returns the decision of an answer; `None` for an error.
    pub(super) fn of(answered: &'a Answered<'a>) -> Option<Self> {
        let Answered { limit, keys, unasked, operation, costs, at, .. } = *answered;
        let decision = answered.outcome.ok()?;
        let costs = operation.has_cost().then_some(costs);
        Some(Self { decision, operation, at, limit, keys, unasked, costs })
    }

    /// Returns the decision about a hold or a reservation.
    pub(super) fn of_settled(settled: &'a Settled<'a>) -> Option<Self> {
        let Settled { limit, keys, operation, at, .. } = *settled;
        let decision = settled.outcome.ok()?;
        Some(Self { decision, operation, at, limit, keys, unasked: &[], costs: None })
    }

    /// Returns the rows, in the order of the request.
    pub(super) fn rows(&'a self) -> impl Iterator<Item = Row<'a>> {
        let asked = self.limit.parts().iter().zip(self.keys).enumerate();
        let asked = asked.map(|(part, (limit, key))| (Some(part), limit, *key));
        let unasked = self.unasked.iter().map(|(limit, key)| (None, limit, &**key));
        asked.chain(unasked).map(|(part, limit, key)| Row { seen: self, limit, key, part })
    }

    /// Returns whether the request took what there was.
    pub(super) const fn is_take(&self) -> bool {
        matches!(self.operation, Operation::Take)
    }

    /// Returns whether the request asked for admission.
    pub(super) const fn is_admission(&self) -> bool {
        matches!(self.operation, Operation::Check | Operation::Reserve { .. } | Operation::Take)
    }
}

impl<'a> Row<'a> {
    /// Returns the origin of the decision for this limit.
    pub(super) fn source(&self) -> Source {
        if self.part.is_some() { self.seen.decision.source() } else { Source::Bypass }
    }

    /// Returns the limit that refused: the binding policy's, or that of a ban or a pause.
    pub(super) fn binding_limit(&self) -> Option<&'a LimitName> {
        self.seen.decision.binding_limit()
    }

    /// Returns whether no policy counted the request.
    pub(super) fn is_bypass(&self) -> bool {
        self.source() == Source::Bypass
    }

    /// Returns the other limits of the decision.
    pub(super) fn together(&self) -> impl Iterator<Item = &'a LimitName> + Clone + use<'a> {
        let own = self.limit;
        let Seen { limit, unasked, .. } = *self.seen;
        let all = limit.parts().iter().chain(unasked.iter().map(|(limit, _)| limit));
        all.filter(move |other| *other != own)
    }

    /// Returns the limits that refuse the request, if there are several limits.
    pub(super) fn denied_by(&self) -> impl Iterator<Item = &'a LimitName> + Clone + use<'a> {
        let Seen { limit, decision, unasked, .. } = *self.seen;
        let parts = limit.parts();
        let are_several = parts.len() + unasked.len() > 1;
        let parts = parts.iter().enumerate().filter(move |_| are_several);
        parts.filter(|(part, _)| decision.is_refused_by(*part)).map(|(_, limit)| limit)
    }

    /// Returns whether the limit refused the request.
    pub(super) fn is_refused(&self) -> bool {
        let Seen { limit, decision, .. } = *self.seen;
        let is_alone = limit.parts().len() == 1;
        decision.is_denied()
            && self.part.is_some_and(|part| is_alone || decision.is_refused_by(part))
    }

    /// Returns the results of the limit's policies.
    pub(super) fn policies(&self) -> impl Iterator<Item = Outcome<'a>> + Clone + use<'a> {
        let Self { part, seen: Seen { decision, .. }, .. } = *self;
        decision.policies().filter(move |policy| Some(policy.member().part()) == part)
    }

    /// Returns `true` if a shadow policy would have denied the request.
    pub(super) fn is_shadow_denied(&self) -> bool {
        self.policies().any(|policy| policy.is_shadow() && !policy.is_admitted())
    }

    /// Returns the costs of the request.
    pub(super) fn cost(&self) -> RowCost {
        let mut costs = self.costs().map(|(_, cost)| cost);
        let Some(first) = costs.next() else { return RowCost::None };
        if costs.all(|cost| cost == first) { RowCost::Same(first) } else { RowCost::Each }
    }

    /// Returns the costs of the request by the names of the policies.
    pub(super) fn costs(&self) -> impl Iterator<Item = (&'a str, u64)> + Clone + use<'a> {
        let Seen { limit, costs, decision, .. } = *self.seen;
        let is_counted = decision.source() != Source::Bypass;
        let part = self.part.filter(|_| is_counted);
        let members = limit.members().iter().enumerate();
        let own = members.filter(move |(_, member)| Some(member.part()) == part);
        own.filter_map(move |(index, member)| {
            Some((member.name().as_str(), costs?.of(limit, index)))
        })
    }

    /// Returns the largest number of units that the request takes under one policy; for a grant, those granted.
    pub(super) fn units(&self) -> u64 {
        match self.seen.operation {
            Operation::Take => self.seen.decision.granted(),
            _ => self.costs().map(|(_, cost)| cost).max().unwrap_or(0),
        }
    }
}

/// Calls `each` for every limit of a decision. It gets whether the decision is allowed, whether this limit refused it, and
/// whether a shadow policy of the limit would have.
pub(crate) fn shares(answered: &Answered<'_>, mut each: impl FnMut(&LimitName, bool, bool, bool)) {
    let Some(seen) = Seen::of(answered) else { return };
    let is_allowed = seen.decision.is_allowed();
    for row in seen.rows() {
        each(row.limit, is_allowed, row.is_refused(), row.is_shadow_denied());
    }
}

/// Maximum number of characters shown of a key, because a client may choose a long one.
const MOST_OF_KEY: usize = 64;
/// Maximum number of bytes of a key that are read. A character has at most 4 bytes, so a truncated one is beyond the
/// shown characters.
const MOST_READ: usize = 4 * (MOST_OF_KEY + 1);

/// Returns the beginning of a key as text.
pub(crate) fn shown(key: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(key.get(..MOST_READ).unwrap_or(key)).into_owned();
    if let Some((end, _)) = text.char_indices().nth(MOST_OF_KEY) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_cut_and_others_whole() {
        let longest = "é".repeat(MOST_OF_KEY);
        assert_eq!(shown(longest.as_bytes()), longest);
        assert_eq!(shown(format!("{longest}x").as_bytes()), format!("{longest}…"));
        let crabs = "\u{1f980}".repeat(1_000);
        assert_eq!(shown(crabs.as_bytes()).chars().count(), MOST_OF_KEY + 1);
        assert_eq!(shown(b"a\xff\0"), "a\u{fffd}\0");
    }
}
