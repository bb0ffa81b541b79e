//! Overrides and their changes, as operators see them.

use std::time::Duration;

use sluicegate_core::for_stores::{Changed, Mark, SettingValue};
use sluicegate_core::{LimitName, Timestamp};

use super::mirror::Kept;
use super::stored::{Stored, subject_of};
use super::terms::OverrideTo;

/// An override in a store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OverrideEntry {
    /// The key in the form in which the limit counts it; `None` if the override is of the whole limit.
    pub key: Option<Vec<u8>>,
    /// The content.
    pub to: OverrideTo,
    /// The time until it ends; `None` without an end.
    pub ends_in: Option<Duration>,
    /// The time at which it was set, by the clock of the store.
    pub since: Timestamp,
    /// The note of the caller that set it.
    pub note: Option<String>,
    /// The name of that caller.
    pub by: Option<String>,
    /// The reason why it isn't in force here; `None` if it is. The configuration has no such limit, or has other policies now.
    pub problem: Option<String>,
}

/// A change of an override, from the audit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The place in the audit, from which a further page continues.
    pub place: String,
    /// The time, by the clock of the store.
    pub at: Timestamp,
    /// The name of the caller that made it.
    pub by: Option<String>,
    /// The limit.
    pub limit: LimitName,
    /// The key; `None` if the override is of the whole limit.
    pub key: Option<Vec<u8>>,
    /// The content before; `None` if there was no override.
    pub from: Option<OverrideTo>,
    /// The content now; `None` if there is no override any more.
    pub to: Option<OverrideTo>,
    /// The lifetime of the override; `None` without an end.
    pub lasts: Option<Duration>,
    /// The note of that caller.
    pub note: Option<String>,
}

impl OverrideEntry {
    pub(super) fn new(
        key: Option<&[u8]>,
        kept: &Kept,
        store_time: Timestamp,
        problem: Option<String>,
    ) -> Self {
        Self {
            key: key.map(<[u8]>::to_vec),
            to: kept.to.clone(),
            ends_in: kept.ends.map(|ends| between(store_time, ends)),
            since: kept.since,
            note: kept.note.clone(),
            by: kept.by.clone(),
            problem,
        }
    }
}

impl AuditEntry {
    /// Reads a logged change; `None` if it isn't of an override.
    pub(super) fn read(changed: &Changed) -> Option<Self> {
        let (limit, key) = subject_of(&changed.setting.name)?;
        let stored = |value: Option<&SettingValue>| Stored::read(&value?.content);
        let (before, after) = (changed.before.as_ref(), changed.setting.value.as_ref());
        let said = stored(after).or_else(|| Stored::read(&changed.remark)).unwrap_or_default();
        let ends = after.and_then(|after| after.ends);
        Some(Self {
            place: changed.mark.to_string(),
            at: changed.at,
            limit: limit.parse().ok()?,
            key: key.map(<[u8]>::to_vec),
            from: stored(before).and_then(|stored| stored.to()),
            to: said.to(),
            lasts: ends.map(|ends| between(changed.at, ends)),
            by: said.by,
            note: said.note,
        })
    }

    /// Returns the mark of a place, for the page after it.
    pub(super) fn mark(place: &str) -> Mark {
        Mark::new(place)
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_micros(to.as_micros().saturating_sub(from.as_micros()))
}
