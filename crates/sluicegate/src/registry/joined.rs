//! The limits that were charged together, by their names.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use sluicegate_core::{HoldToken, LimitName};

use super::gate_cache::GateCache;
use super::target::Target;

/// A bounded cache of cells for several limits by name: opening limits together takes longer than settling.
pub(super) struct Joined(Mutex<LruCache<Vec<LimitName>, Arc<GateCache>>>);

impl Joined {
    const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

    /// Returns the cell of a token's limits, all of which exist.
    pub(super) fn cell(&self, token: &HoldToken) -> Arc<GateCache> {
        let names: Vec<LimitName> = token.limits().cloned().collect();
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = cells.get_or_insert(names, || {
            let targets = token.limits().map(|name| Target::Named(name.as_str().into()));
            Arc::new(GateCache::new(targets.collect::<Vec<_>>()))
        });
        Arc::clone(cell)
    }
}

impl Default for Joined {
    fn default() -> Self {
        // Don't allocate for the whole bound ahead of use.
        let mut cells = LruCache::unbounded();
        cells.resize(Self::MOST);
        Self(Mutex::new(cells))
    }
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}
