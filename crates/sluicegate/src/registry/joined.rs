//! Several limits by their names.

use std::fmt::{self, Write as _};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::gate_cache::GateCache;
use super::target::Target;

/// A bounded cache of cells for several limits by name: opening limits together takes longer than deciding or settling.
pub(super) struct Joined(Mutex<LruCache<String, Arc<GateCache>>>);

impl Joined {
    const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1_023);

    /// Returns the cell of these limits, whose names differ.
    pub(super) fn cell<'n>(&self, names: impl Iterator<Item = &'n str> + Clone) -> Arc<GateCache> {
        // Clients may choose the names, so each has its length in front.
        let mut key = String::new();
        for name in names.clone() {
            // Writing into text never fails.
            let _ = write!(key, "{}:{name}", name.len());
        }
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = cells.get_or_insert(key, || {
            let targets = names.map(|name| Target::Named(name.into()));
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
