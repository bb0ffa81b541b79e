//! The names of a gate's limits, and the limits themselves as last resolved.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::resolved::Resolved;
use super::response_fields::Shown;
use super::target::Target;
use crate::numbers_cache::NumbersCache;

/// The names of a gate's limits, and the limits as last resolved. Clones of a gate share it.
pub(super) struct GateCache {
    /// The names joined with ` + `.
    name: Box<str>,
    targets: Box<[Target]>,
    pub(super) shown: Shown,
    pub(super) resolved: ArcSwap<Resolved>,
    /// The limit with other numbers.
    pub(super) by_numbers: NumbersCache<Arc<Self>>,
}

impl GateCache {
    pub(super) fn new(targets: impl Into<Box<[Target]>>) -> Self {
        Self::showing(targets.into(), Shown::default())
    }

    /// Makes a cell with these response fields for clients.
    pub(super) fn showing(targets: Box<[Target]>, shown: Shown) -> Self {
        let names: Vec<&str> = targets.iter().map(Target::name).collect();
        Self {
            name: names.join(" + ").into(),
            targets,
            shown,
            // Older than any configuration, so that the first use resolves it.
            resolved: ArcSwap::from_pointee(Resolved::default()),
            by_numbers: NumbersCache::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn targets(&self) -> &[Target] {
        &self.targets
    }
}

impl fmt::Debug for GateCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateCache").field("name", &self.name).finish_non_exhaustive()
    }
}
