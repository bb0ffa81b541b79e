//! The limits that have overrides at run time.

use std::collections::HashMap;
use std::sync::Arc;

use super::opened::Opened;
use crate::overrides::{ChangedKeys, OfLimit};

/// The overrides of all limits, and the limits with them.
#[derive(Debug, Default)]
pub(super) struct Overridden(HashMap<Box<str>, Entry>);

#[derive(Debug, Default)]
struct Entry {
    overrides: OfLimit,
    /// The keys whose overrides changed since they were applied.
    changed: ChangedKeys,
    /// The limit without overrides, and with them; `None` if there is no such limit.
    applied: Option<(Arc<Opened>, Arc<Opened>)>,
}

impl Overridden {
    /// Sets the overrides of a limit. These keys have other ones than before.
    pub(super) fn set(&mut self, limit: &str, overrides: OfLimit, changed: ChangedKeys) {
        if overrides.is_empty() {
            self.0.remove(limit);
            return;
        }
        let entry = self.0.entry(limit.into()).or_default();
        entry.overrides = overrides;
        entry.changed.extend(changed);
    }

    /// Applies the overrides to the limits. If two have the same name, the later one counts.
    pub(super) fn apply<'o>(&mut self, limits: impl Iterator<Item = &'o Arc<Opened>>) {
        if self.0.is_empty() {
            return;
        }
        let limits: HashMap<&str, &Arc<Opened>> =
            limits.map(|opened| (opened.name(), opened)).collect();
        for (name, entry) in &mut self.0 {
            let changed = std::mem::take(&mut entry.changed);
            let Some(base) = limits.get(&**name) else {
                entry.applied = None;
                continue;
            };
            let is_same = |known: &&(Arc<Opened>, Arc<Opened>)| Arc::ptr_eq(&known.0, base);
            let before = entry.applied.as_ref().filter(is_same).map(|(_, opened)| &**opened);
            if before.is_some() && changed.is_empty() {
                continue;
            }
            let overridden = base.overridden(&entry.overrides, before.map(|it| (it, &changed)));
            let problems = overridden.override_problems();
            let warn = |key: Option<&[u8]>, problem: &str| {
                let of =
                    key.map_or_else(String::new, |key| format!(" of key `{}`", key.escape_ascii()));
                tracing::warn!(limit = &**name, "the override{of} isn't in force: {problem}");
            };
            // The log has the problems of other keys already.
            match before {
                None => problems.iter().for_each(|(key, problem)| warn(key, problem)),
                Some(_) => changed.iter().map(Option::as_deref).for_each(|key| {
                    problems.of(key).iter().for_each(|problem| warn(key, problem));
                }),
            }
            entry.applied = Some((Arc::clone(base), Arc::new(overridden)));
        }
    }

    /// Returns the limit with its overrides.
    pub(super) fn in_force<'o>(&'o self, base: &'o Arc<Opened>) -> &'o Arc<Opened> {
        let applied = self.0.get(base.name()).and_then(|entry| entry.applied.as_ref());
        applied.filter(|(known, _)| Arc::ptr_eq(known, base)).map_or(base, |(_, opened)| opened)
    }
}
