//! A layer's memory of many subjects, in parts that each have their own lock.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::fingerprint::Fingerprint;

/// Parts; each subject is in one of them.
pub(super) struct Parts<T>(Box<[Mutex<T>]>);

impl<T> Parts<T> {
    pub(super) fn new(count: usize, part: impl Fn() -> T) -> Self {
        Self((0..count).map(|_| Mutex::new(part())).collect())
    }

    /// Returns the part of a subject.
    pub(super) fn of(&self, subject: Fingerprint) -> MutexGuard<'_, T> {
        let index = subject % self.0.len() as Fingerprint;
        self.at(usize::try_from(index).unwrap_or(0))
    }

    /// Returns the part at an index.
    pub(super) fn at(&self, index: usize) -> MutexGuard<'_, T> {
        lock(&self.0[index])
    }

    /// Returns all parts, one after the other.
    pub(super) fn iter(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.0.iter().map(lock)
    }
}

/// Returns one of `parts` parts that remember `most` subjects together. The least recently used are removed first.
pub(super) fn latest<V>(most: NonZeroUsize, parts: usize) -> LruCache<Fingerprint, V> {
    let each = NonZeroUsize::new(most.get().div_ceil(parts)).unwrap_or(NonZeroUsize::MIN);
    // Don't allocate for the whole bound ahead of use.
    let mut latest = LruCache::unbounded();
    latest.resize(each);
    latest
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks panics half way.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
