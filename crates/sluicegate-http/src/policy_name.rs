//! The names of policies in responses.

use std::borrow::Cow;

use sluicegate_core::{Decision, Limit, Member, Outcome};

/// Returns the name of a policy as clients see it. If limits decide together and another policy has
/// the same name, the name of the limit precedes it.
pub(crate) fn display_name<'l>(limit: &Limit, member: &'l Member) -> Cow<'l, str> {
    let name = member.name().as_str();
    match limit.parts().get(member.part()) {
        Some(part) if member.has_namesake() => Cow::Owned(format!("{part}/{name}")),
        _ => Cow::Borrowed(name),
    }
}

/// Returns the display names of the policies that refuse a request, with their outcomes. Shadow
/// policies are omitted.
pub(crate) fn refusing(decision: &Decision) -> impl Iterator<Item = (Cow<'_, str>, Outcome<'_>)> {
    let limit = decision.limit().filter(|_| decision.is_denied());
    let refused = |outcome: &Outcome<'_>| !outcome.is_shadow() && !outcome.is_admitted();
    limit.into_iter().flat_map(move |limit| {
        let refusing = decision.policies().filter(refused);
        refusing.map(move |outcome| (display_name(limit, outcome.member()), outcome))
    })
}
