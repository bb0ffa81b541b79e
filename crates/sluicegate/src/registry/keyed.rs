//! Limiters created when their key first occurs.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sluicegate_core::{HoldToken, LimitName};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::gate_cache::GateCache;
use super::opened::Opened;
use crate::config_file::LimitConfig;

/// A bounded cache of limiters for recently used keys. Eviction loses nothing: the consumed units stay in the store.
pub(super) struct KeyedCache {
    idle: Duration,
    entries: Mutex<LruCache<CacheKey, Entry>>,
    /// One limit per set of numbers, shared by the keys of one plan. They outlive the keys' entries, because an
    /// embedded store keeps a state that is in use under any open limit.
    numbers: Mutex<LruCache<String, Arc<Opened>>>,
}

/// The name, its length first, and the key.
type CacheKey = SmallVec<[u8; 64]>;

fn cache_key(name: &str, key: &[u8]) -> CacheKey {
    let mut cache_key = CacheKey::from_slice(&name.len().to_le_bytes());
    cache_key.extend_from_slice(name.as_bytes());
    cache_key.extend_from_slice(key);
    cache_key
}

struct Entry {
    cell: Arc<GateCache>,
    used: Instant,
}

impl KeyedCache {
    pub(super) const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
    pub(super) const IDLE: Duration = Duration::from_secs(5 * 60);

    /// The longest key that is cached, in bytes, because clients choose keys.
    const LONGEST_KEY: usize = 1_024;
    /// The number of idle entries that an insertion evicts: more than one, so that the cache can shrink.
    const EXPIRED_AT_ONCE: usize = 4;

    pub(super) fn new(most: NonZeroUsize, idle: Duration) -> Self {
        // Don't allocate for the whole bound ahead of use.
        let mut entries = LruCache::unbounded();
        entries.resize(most);
        let mut numbers = LruCache::unbounded();
        numbers.resize(Self::MOST);
        Self { idle, entries: Mutex::new(entries), numbers: Mutex::new(numbers) }
    }

    /// Returns the limit of `config`, opened for its numbers alone.
    pub(super) fn with_numbers(
        &self,
        config: LimitConfig,
        open: impl FnOnce(LimitConfig) -> Arc<Opened>,
    ) -> Arc<Opened> {
        let mut text = config.limit.name().to_string();
        for member in config.limit.members() {
            let _ = write!(text, "\n{}: {}", member.name(), member.policy());
        }
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(numbers.get_or_insert(text, || open(config)))
    }

    /// Returns the cached value for a key, or the one that `make` returns. Two concurrent callers may both
    /// call `make`; the cache keeps one of the results.
    pub(super) fn get_or_make<E>(
        &self,
        name: &str,
        key: &[u8],
        make: impl FnOnce() -> Result<Arc<GateCache>, E>,
    ) -> Result<Arc<GateCache>, E> {
        if name.len() + key.len() > Self::LONGEST_KEY {
            return make();
        }
        let cache_key = cache_key(name, key);
        let now = Instant::now();
        if let Some(known) = self.get(&cache_key, now) {
            return Ok(known);
        }
        // Called outside of the lock, since it may take long.
        let made = make()?;
        let mut entries = self.lock();
        for _ in 0..Self::EXPIRED_AT_ONCE {
            // The first of these is the least recently used one.
            let expired = entries
                .peek_lru()
                .is_some_and(|(_, entry)| now.saturating_duration_since(entry.used) >= self.idle);
            if !expired || entries.pop_lru().is_none() {
                break;
            }
        }
        if let Some(entry) = entries.get_mut(&cache_key) {
            entry.used = now;
            return Ok(Arc::clone(&entry.cell));
        }
        entries.put(cache_key, Entry { cell: Arc::clone(&made), used: now });
        Ok(made)
    }

    /// Returns the cached cell of a token's only limit, for its key.
    pub(super) fn cell(&self, token: &HoldToken) -> Option<Arc<GateCache>> {
        let mut limits = token.limits().map(LimitName::as_str);
        let (Some(name), None) = (limits.next(), limits.next()) else { return None };
        let cell = self.get(&cache_key(name, token.key()), Instant::now())?;
        // A gate cached under a name may have a limit with another name.
        let is_of_it = matches!(cell.targets(), [target] if target.name() == name);
        is_of_it.then_some(cell)
    }

    fn get(&self, key: &CacheKey, now: Instant) -> Option<Arc<GateCache>> {
        let mut entries = self.lock();
        let entry = entries.get_mut(key)?;
        if now.saturating_duration_since(entry.used) >= self.idle {
            entries.pop(key);
            return None;
        }
        entry.used = entry.used.max(now);
        Some(Arc::clone(&entry.cell))
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<CacheKey, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
