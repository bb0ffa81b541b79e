//! Overrides and their changes as JSON.

use std::borrow::Cow;

use sluicegate::admin::{AuditEntry, OverrideEntry, OverrideTo};
use sluicegate::store::Span;
use sluicegate_client::json::{self, Rfc3339, key_fields};

use super::percent::percent_encoded;

/// Describes an override of a limit.
pub(crate) fn entry<'a>(
    limit: &'a str,
    entry: &'a OverrideEntry,
    durable: bool,
) -> json::OverrideEntry<'a> {
    let (key, key_bytes) = key_fields(entry.key.as_deref());
    let ends_in = entry.ends_in.map(Span::from);
    json::OverrideEntry {
        limit: limit.into(),
        key,
        key_bytes,
        to: to(&entry.to),
        ends_in_ms: ends_in.map(Span::as_millis_ceil),
        ends_in_us: ends_in.map(Span::as_micros),
        since: Rfc3339(entry.since).to_string().into(),
        note: entry.note.as_deref().map(Cow::from),
        by: entry.by.as_deref().map(Cow::from),
        durable,
        problem: entry.problem.as_deref().map(Cow::from),
    }
}

/// Describes a page of overrides. `found` has one more than the page, if there are more, and `whole` is the override of
/// the whole limit.
pub(crate) fn page_of<'a>(
    limit: &'a str,
    whole: Option<&'a OverrideEntry>,
    found: &'a mut Vec<OverrideEntry>,
    count: usize,
    durable: bool,
) -> json::OverrideList<'a> {
    let has_more = found.len() > count;
    found.truncate(count);
    let last = found.last().filter(|_| has_more).and_then(|last| last.key.as_deref());
    json::OverrideList {
        limit: limit.into(),
        whole: whole.map(|whole| entry(limit, whole, durable)),
        overrides: found.iter().map(|found| entry(limit, found, durable)).collect(),
        next: last.map(|key| percent_encoded(key).into()),
    }
}

/// Describes a change of an override.
pub(crate) fn audit_entry(change: &AuditEntry) -> json::AuditEntry<'_> {
    let (key, key_bytes) = key_fields(change.key.as_deref());
    json::AuditEntry {
        at: Rfc3339(change.at).to_string().into(),
        by: change.by.as_deref().map(Cow::from),
        limit: change.limit.as_str().into(),
        key,
        key_bytes,
        from: change.from.as_ref().map(to),
        to: change.to.as_ref().map(to),
        lasts_ms: change.lasts.map(|lasts| Span::from(lasts).as_millis_ceil()),
        note: change.note.as_deref().map(Cow::from),
    }
}

fn to(to: &OverrideTo) -> json::OverrideTo {
    let mut described = json::OverrideTo::default();
    match to {
        OverrideTo::Policies(policies) => {
            described.policies = Some(policies.iter().map(ToString::to_string).collect());
        }
        OverrideTo::Times(times) => described.times = times.to_string().parse().ok(),
        OverrideTo::Allow => described.allow = true,
        OverrideTo::Block => described.block = true,
        // A kind that a later version may add.
        _ => {}
    }
    described
}
