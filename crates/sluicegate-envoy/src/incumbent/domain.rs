//! A domain, in the form in which requests find its rules.

use std::sync::Arc;

use super::block::Block;
use super::level::Level;

/// The rules of a domain.
#[derive(Debug, Default)]
pub(crate) struct Domain {
    pub(crate) level: Level,
    /// The block of our own, next to `domain`.
    pub(crate) block: Option<Arc<Block>>,
}
