//! Limits that differ from another one only in their numbers.

use std::num::NonZeroUsize;
use std::sync::{Mutex, OnceLock, PoisonError};

use lru::LruCache;
use sluicegate_core::Policy;

/// The limits that were opened with other numbers than their own. Equal numbers give one limit, so the number of
/// callers doesn't matter. At most [`Self::MOST`] limits are kept; the least recently used one leaves.
///
/// They outlive the keys that they decide about, because an embedded store keeps a state that is in use under any open
/// limit.
pub(crate) struct NumbersCache<L>(OnceLock<Mutex<LruCache<Box<[Policy]>, L>>>);

impl<L: Clone> NumbersCache<L> {
    /// The maximum number of limits.
    pub(crate) const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

    /// Returns the limit with these numbers, or the one that `open` returns.
    pub(crate) fn get_or_open<E>(
        &self,
        numbers: Vec<Policy>,
        open: impl FnOnce(Vec<Policy>) -> Result<L, E>,
    ) -> Result<L, E> {
        // Allocates at the first use, because most limits have only their own numbers.
        let limits = self.0.get_or_init(|| {
            let mut limits = LruCache::unbounded();
            limits.resize(Self::MOST);
            Mutex::new(limits)
        });
        let mut limits = limits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = limits.get(numbers.as_slice()) {
            return Ok(known.clone());
        }
        let key = numbers.clone().into();
        let opened = open(numbers)?;
        limits.put(key, opened.clone());
        Ok(opened)
    }
}

impl<L> Default for NumbersCache<L> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}
