//! The part `memory`.

use std::num::NonZeroUsize;

use sluicegate_memory::{Builder, MemoryStore};

/// Setup of the embedded store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct MemoryConfig {
    /// The maximum number of keys; `None` for the store's default.
    pub max_keys: Option<NonZeroUsize>,
    /// The maximum number of bytes that they take; `None` for the store's default.
    pub max_bytes: Option<NonZeroUsize>,
    /// Treatment of a new key beyond that.
    pub overflow: Overflow,
}

/// Treatment of a new key by an embedded store that is full.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Overflow {
    /// Evict the least used key of the limit that holds most.
    #[default]
    Evict,
    /// Deny the request, unless its limit holds less than its share of the store.
    Deny,
}

impl MemoryConfig {
    /// Returns a builder of a store with this setup.
    pub(crate) fn builder(&self) -> Builder {
        let mut builder = MemoryStore::builder();
        if let Some(most) = self.max_keys {
            builder = builder.max_keys(most);
        }
        if let Some(most) = self.max_bytes {
            builder = builder.max_bytes(most);
        }
        builder.overflow(match self.overflow {
            Overflow::Evict => sluicegate_memory::Overflow::Evict,
            Overflow::Deny => sluicegate_memory::Overflow::Deny,
        })
    }
}
