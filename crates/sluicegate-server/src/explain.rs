//! Explains a decision: each policy's state in words, and the origin of each setting. [`because`] makes the reasons.

mod arithmetic;
mod origin;
mod settings;

use sluicegate::policy::{LimitName, Member};
use sluicegate::{Ask, Decision, Gate, Registry};
use sluicegate_client::json::Because;

use crate::cost::AskedCost;
use settings::Explained;

/// A limit of a request, as the caller asked about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) limit: &'a str,
    /// The key as the caller gave it.
    pub(crate) key: &'a [u8],
    pub(crate) cost: &'a AskedCost,
    /// Whether the request gives the policies.
    pub(crate) gives_policies: bool,
}

/// Returns the reasons for the decision of a peek. `wishes` has an entry for each limit of the gate, in the same order.
///
/// # Errors
/// Returns an error if a limit can't count its key.
pub(crate) fn because(
    registry: &Registry,
    gate: &Gate,
    ask: &Ask<'_>,
    wishes: &[Wish<'_>],
    decision: &Decision,
) -> Result<Vec<Because>, sluicegate::Error> {
    let mut reasons = Vec::new();
    for (standing, wish) in gate.standings(ask)?.iter().zip(wishes) {
        let explained = Explained::new(registry, standing, *wish);
        explained.settings(decision, &mut reasons);
        let parts = decision.limit().map_or(&[][..], |limit| limit.parts());
        let is_own =
            |member: &Member| parts.get(member.part()).map(LimitName::as_str) == Some(wish.limit);
        let own = decision.policies().filter(|outcome| is_own(outcome.member()));
        for (index, outcome) in own.enumerate() {
            reasons.push(explained.policy(index, &outcome, decision));
        }
    }
    Ok(reasons)
}
