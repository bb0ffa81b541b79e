//! Limiters that are made when their key first comes up.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::cell::Cell;
use super::opened::Opened;
use crate::config::LimitConfig;

/// What was made for the keys that came up lately. It is bounded, and what nobody asks for goes;
/// what was consumed is in the store and stays there.
pub(super) struct KeyedCache {
    idle: Duration,
    entries: Mutex<LruCache<CacheKey, Entry>>,
    /// One limit for each set of numbers: the keys of one plan share it. An embedded store keeps
    /// what is live under any limit that is open, so they stay when the keys that had them go.
    numbers: Mutex<LruCache<String, Arc<Opened>>>,
}

/// The name, its length first, and the key.
type CacheKey = SmallVec<[u8; 64]>;

struct Entry {
    cell: Arc<Cell>,
    used: Instant,
}

impl KeyedCache {
    pub(super) const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
    pub(super) const IDLE: Duration = Duration::from_secs(5 * 60);

    /// The longest key that is kept, in bytes: keys are made by strangers.
    const LONGEST_KEY: usize = 1_024;
    /// How many idle entries go when one comes: the cache shrinks faster than it grows.
    const EXPIRED_AT_ONCE: usize = 4;

    pub(super) fn new(most: NonZeroUsize, idle: Duration) -> Self {
        // A bound that is set later takes no memory ahead of use.
        let mut entries = LruCache::unbounded();
        entries.resize(most);
        let mut numbers = LruCache::unbounded();
        numbers.resize(Self::MOST);
        Self { idle, entries: Mutex::new(entries), numbers: Mutex::new(numbers) }
    }

    /// The limit of `config`, which has nothing but its numbers.
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

    /// What was made for a key, or what `make` makes. Two callers that come at once may both make
    /// one; one of the two is kept.
    pub(super) fn get_or_make<E>(
        &self,
        name: &str,
        key: &[u8],
        make: impl FnOnce() -> Result<Arc<Cell>, E>,
    ) -> Result<Arc<Cell>, E> {
        if name.len() + key.len() > Self::LONGEST_KEY {
            return make();
        }
        let mut cache_key = CacheKey::from_slice(&name.len().to_le_bytes());
        cache_key.extend_from_slice(name.as_bytes());
        cache_key.extend_from_slice(key);
        let now = Instant::now();
        if let Some(known) = self.get(&cache_key, now) {
            return Ok(known);
        }
        // Not under the lock: what it does takes as long as it takes.
        let made = make()?;
        let mut entries = self.lock();
        for _ in 0..Self::EXPIRED_AT_ONCE {
            // The first of these is the one that was used least lately.
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

    fn get(&self, key: &CacheKey, now: Instant) -> Option<Arc<Cell>> {
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
