//! The targets of a gate.

use std::sync::Arc;

use super::opened::Opened;

/// One limit that a gate names.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The limit with this name.
    Named(Arc<str>),
    /// A limit given in code, unless the configuration has one of its name.
    Inline(Arc<Opened>),
    /// Numbers given in code; the configuration has the rest under that name.
    Keyed(Arc<Opened>),
}

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Inline(opened) | Self::Keyed(opened) => opened.name(),
        }
    }
}
