//! The limits that have overrides at run time.

use std::collections::HashMap;
use std::sync::Arc;

use super::opened::Opened;
use crate::overrides::OfLimit;

/// The overrides of all limits, and the limits with them.
#[derive(Debug, Default)]
pub(super) struct Overridden(HashMap<Box<str>, Entry>);

#[derive(Debug)]
struct Entry {
    overrides: Arc<OfLimit>,
    /// Whether the overrides changed since they were applied.
    is_new: bool,
    /// The limit without overrides, and with them; `None` if there is no such limit.
    applied: Option<(Arc<Opened>, Arc<Opened>)>,
}

impl Overridden {
    /// Sets the overrides of a limit.
    pub(super) fn set(&mut self, limit: &str, overrides: OfLimit) {
        if overrides == OfLimit::default() {
            self.0.remove(limit);
            return;
        }
        let applied = self.0.remove(limit).and_then(|known| known.applied);
        let overrides = Arc::new(overrides);
        self.0.insert(limit.into(), Entry { overrides, is_new: true, applied });
    }

    /// Applies the overrides to the limits. If two have the same name, the later one counts.
    pub(super) fn apply<'o>(&mut self, limits: impl Iterator<Item = &'o Arc<Opened>>) {
        if self.0.is_empty() {
            return;
        }
        let limits: HashMap<&str, &Arc<Opened>> =
            limits.map(|opened| (opened.name(), opened)).collect();
        for (name, entry) in &mut self.0 {
            let Some(base) = limits.get(&**name) else {
                entry.applied = None;
                continue;
            };
            let is_same = |known: &&(Arc<Opened>, Arc<Opened>)| Arc::ptr_eq(&known.0, base);
            let before = entry.applied.as_ref().filter(is_same);
            if before.is_some() && !entry.is_new {
                continue;
            }
            let overridden = base.overridden(&entry.overrides, before.map(|(_, opened)| &**opened));
            for (key, problem) in overridden.override_problems().iter() {
                let of =
                    key.map_or_else(String::new, |key| format!(" of key `{}`", key.escape_ascii()));
                tracing::warn!(limit = &**name, "the override{of} isn't in force: {problem}");
            }
            entry.applied = Some((Arc::clone(base), Arc::new(overridden)));
            entry.is_new = false;
        }
    }

    /// Returns the limit with its overrides.
    pub(super) fn in_force<'o>(&'o self, base: &'o Arc<Opened>) -> &'o Arc<Opened> {
        let applied = self.0.get(base.name()).and_then(|entry| entry.applied.as_ref());
        applied.filter(|(known, _)| Arc::ptr_eq(known, base)).map_or(base, |(_, opened)| opened)
    }
}
