//! What a gate names.

use std::sync::Arc;

use super::opened::Opened;

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

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Inline(opened) | Self::Keyed(opened) => opened.name(),
        }
    }
}
