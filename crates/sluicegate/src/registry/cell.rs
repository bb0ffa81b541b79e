//! What a gate names, and what that is at the moment.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::generation::Generation;
use super::opened::Opened;
use super::resolved::Resolved;

/// What a gate names, and what that was when it was last asked. Clones of a gate share it.
pub(super) struct Cell {
    /// The names joined with ` + `.
    name: Box<str>,
    targets: Box<[Target]>,
    pub(super) resolved: ArcSwap<Resolved>,
}

/// One limit that a gate names.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Whatever limit has this name.
    Named(Arc<str>),
    /// One given in code, unless the configuration has one of its name.
    Inline(Arc<Opened>),
    /// Numbers given in code; the rest is what the configuration says of their name.
    Keyed(Arc<Opened>),
}

impl Cell {
    pub(super) fn new(targets: impl Into<Box<[Target]>>) -> Self {
        let targets = targets.into();
        let names: Vec<&str> = targets.iter().map(Target::name).collect();
        Self {
            name: names.join(" + ").into(),
            targets,
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
        let resolved = Arc::new(Resolved::new(&self.targets, generation));
        self.resolved.rcu(|known| {
            Arc::clone(if known.number > resolved.number { known } else { &resolved })
        });
    }
}

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Inline(opened) | Self::Keyed(opened) => opened.name(),
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("name", &self.name).finish_non_exhaustive()
    }
}
