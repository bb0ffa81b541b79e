//! What policies are called in answers.

use std::borrow::Cow;

use sluicegate_core::{Decision, Limit};

/// The name of a limit's policy as clients see it: its own, or where limits are decided together
/// and two policies have one name, the limit's before it.
pub(crate) fn display_name(limit: &Limit, index: usize) -> Cow<'_, str> {
    let Some(member) = limit.members().get(index) else {
        return Cow::Borrowed("");
    };
    let name = member.name().as_str();
    match limit.parts().get(member.part()) {
        Some(part) if member.has_namesake() => Cow::Owned(format!("{part}/{name}")),
        _ => Cow::Borrowed(name),
    }
}

/// The places of the policies that turn a request away. Those that only watch are not among them.
pub(crate) fn refusing(decision: &Decision) -> impl Iterator<Item = usize> {
    let policies = decision.policies().iter().enumerate();
    policies
        .filter(|(_, outcome)| {
            decision.is_denied() && !outcome.is_shadow() && !outcome.is_admitted()
        })
        .map(|(index, _)| index)
}
