//! The names of policies in responses.

use std::borrow::Cow;

use sluicegate_core::{Decision, Limit};

/// The name of a policy as clients see it: its own name, with the name of its limit in front if
/// limits decide together and another policy has the same name.
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

/// The indexes of the policies that refuse a request, without shadow policies.
pub(crate) fn refusing(decision: &Decision) -> impl Iterator<Item = usize> {
    let policies = decision.policies().iter().enumerate();
    policies
        .filter(|(_, outcome)| {
            decision.is_denied() && !outcome.is_shadow() && !outcome.is_admitted()
        })
        .map(|(index, _)| index)
}
