//! What a gate names, and what that is at the moment.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::generation::Generation;
use super::prepared::Shown;
use super::resolved::Resolved;
use super::target::Target;

/// What a gate names, and what that was when it was last asked. Clones of a gate share it.
pub(super) struct Cell {
    /// The names joined with ` + `.
    name: Box<str>,
    targets: Box<[Target]>,
    shown: Shown,
    pub(super) resolved: ArcSwap<Resolved>,
}

impl Cell {
    pub(super) fn new(targets: impl Into<Box<[Target]>>) -> Self {
        Self::showing(targets.into(), Shown::default())
    }

    /// A cell whose clients are told what `shown` says.
    pub(super) fn showing(targets: Box<[Target]>, shown: Shown) -> Self {
        let names: Vec<&str> = targets.iter().map(Target::name).collect();
        Self {
            name: names.join(" + ").into(),
            targets,
            shown,
            // Older than any: it is looked up at the first use.
            resolved: ArcSwap::from_pointee(Resolved::default()),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Looks the names up in a configuration, unless somebody did so in a later one.
    pub(super) fn resolve(&self, generation: &Generation) {
        let resolved = Arc::new(Resolved::new(&self.targets, &self.shown, generation));
        self.resolved.rcu(|known| {
            Arc::clone(if known.number > resolved.number { known } else { &resolved })
        });
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("name", &self.name).finish_non_exhaustive()
    }
}
