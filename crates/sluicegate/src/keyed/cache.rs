//! The limits of keys, and the runs of the maker that are underway.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sluicegate_core::{Error, Span};
use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::flight::{Flight, Making};
use crate::jitter::up_to;
use crate::limiter::end_of;

/// The limits of recently used keys, and the runs of the maker that are underway. Eviction loses no units: they stay in
/// the store.
pub(super) struct Cache<T>(Mutex<Content<T>>);

struct Content<T> {
    made: LruCache<Box<[u8]>, Made<T>>,
    /// Keys without a limit are here and not in `made`. So unknown keys evict no known one.
    underway: HashMap<Box<[u8]>, Underway<T>>,
    ttl: Span,
}

struct Made<T> {
    target: T,
    /// The time from which the numbers are made again.
    due: Instant,
}

struct Underway<T> {
    flight: Arc<Flight<T>>,
    callers: usize,
    /// The runtime whose timers and sockets the run uses; `None` outside of any.
    runtime: Option<Id>,
}

/// A known limit.
pub(super) struct Known<T> {
    pub(super) target: T,
    /// Whether its numbers have to be made again. One caller gets this.
    pub(super) is_due: bool,
}

impl<T: Clone> Cache<T> {
    pub(super) const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
    pub(super) const TTL: Span = match Span::from_millis(5 * 60 * 1_000) {
        Ok(span) => span,
        Err(_) => Span::MINUTE,
    };
    const SHORTEST_TTL: Span = match Span::from_millis(1) {
        Ok(span) => span,
        Err(_) => Span::SECOND,
    };
    /// The pause after a run that failed for a key whose numbers are known.
    const PAUSE: Span = Span::SECOND;

    pub(super) fn new() -> Self {
        // Don't allocate for the whole bound ahead of use.
        let mut made = LruCache::unbounded();
        made.resize(Self::MOST);
        Self(Mutex::new(Content { made, underway: HashMap::new(), ttl: Self::TTL }))
    }

    pub(super) fn set_capacity(&self, most: NonZeroUsize) {
        self.lock().made.resize(most);
    }

    pub(super) fn set_ttl(&self, ttl: Span) {
        self.lock().ttl = ttl.max(Self::SHORTEST_TTL);
    }

    pub(super) fn len(&self) -> usize {
        self.lock().made.len()
    }

    /// Returns the limit of a key, if it is known.
    pub(super) fn known(&self, key: &[u8]) -> Option<Known<T>> {
        let mut content = self.lock();
        let Content { made, underway, ttl } = &mut *content;
        let known = made.get_mut(key)?;
        let is_due = Instant::now() >= known.due && !underway.contains_key(key);
        if is_due {
            known.due = end_of(Self::PAUSE.min(*ttl));
        }
        Some(Known { target: known.target.clone(), is_due })
    }

    /// Returns the limit of a key. If it isn't known, that is the outcome of the run for it, which `make` starts if none is
    /// underway.
    pub(super) async fn find(
        &self,
        key: &[u8],
        make: impl Fn() -> Making<T> + Send,
    ) -> Result<T, Error> {
        let joined = {
            let mut content = self.lock();
            // Looked up under the lock that joins: otherwise a run that ends in between would be followed by another.
            if let Some(made) = content.made.get(key) {
                return Ok(made.target.clone());
            }
            self.join(&mut content, key)
        };
        self.outcome(joined, make).await
    }

    /// Returns the outcome of the run for a key, known or not, which `make` starts if none is underway.
    pub(super) async fn find_again(
        &self,
        key: &[u8],
        make: impl Fn() -> Making<T> + Send,
    ) -> Result<T, Error> {
        let joined = self.join(&mut self.lock(), key);
        self.outcome(joined, make).await
    }

    async fn outcome(
        &self,
        joined: Joined<'_, T>,
        make: impl Fn() -> Making<T> + Send,
    ) -> Result<T, Error> {
        let outcome = joined.flight.outcome(make).await;
        self.finish(&joined, &outcome);
        outcome
    }

    /// Forgets the limit of a key. A run that is underway only answers the requests that wait for it.
    pub(super) fn forget(&self, key: &[u8]) -> bool {
        let mut content = self.lock();
        let (made, underway) = (content.made.pop(key), content.underway.remove(key));
        drop(content);
        made.is_some() || underway.is_some()
    }

    /// Forgets the limits of all keys.
    pub(super) fn forget_all(&self) {
        let mut content = self.lock();
        let underway = std::mem::take(&mut content.underway);
        content.made.clear();
        drop(content);
        drop(underway);
    }

    fn join(&self, content: &mut Content<T>, key: &[u8]) -> Joined<'_, T> {
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        let start = || Underway { flight: Arc::new(Flight::new()), callers: 0, runtime };
        let underway = content.underway.entry(key.into()).or_insert_with(start);
        // A run continues only while its runtime does, and this caller may block the thread of that. So it has a run of
        // its own, which is not shared.
        let flight = if underway.runtime == runtime {
            underway.callers += 1;
            Arc::clone(&underway.flight)
        } else {
            Arc::new(Flight::new())
        };
        Joined { cache: self, key: key.into(), flight }
    }

    /// Keeps the outcome of a run, unless the key was forgotten since.
    fn finish(&self, joined: &Joined<'_, T>, outcome: &Result<T, Error>) {
        let mut content = self.lock();
        if !content.is_underway(joined) {
            return;
        }
        let ended = content.underway.remove(&*joined.key);
        let ttl = content.ttl;
        match outcome {
            Ok(target) => {
                let made = Made { target: target.clone(), due: end_of(with_jitter(ttl)) };
                content.made.put(joined.key.clone(), made);
            }
            Err(_) => {
                if let Some(known) = content.made.peek_mut(&*joined.key) {
                    known.due = end_of(Self::PAUSE.min(ttl));
                }
            }
        }
        drop(content);
        drop(ended);
    }

    fn lock(&self) -> MutexGuard<'_, Content<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Content<T> {
    /// Returns whether the run of a caller is still that of its key.
    fn is_underway(&self, joined: &Joined<'_, T>) -> bool {
        let underway = self.underway.get(&*joined.key);
        underway.is_some_and(|underway| Arc::ptr_eq(&underway.flight, &joined.flight))
    }
}

/// A caller that waits for a run.
struct Joined<'c, T> {
    cache: &'c Cache<T>,
    key: Box<[u8]>,
    flight: Arc<Flight<T>>,
}

impl<T> Drop for Joined<'_, T> {
    /// Ends a run that no caller waits for.
    fn drop(&mut self) {
        let mut content = self.cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !content.is_underway(self) {
            return;
        }
        if let Some(underway) = content.underway.get_mut(&*self.key) {
            underway.callers -= 1;
            if underway.callers == 0 {
                let ended = content.underway.remove(&*self.key);
                // Code of the maker runs outside of the lock.
                drop(content);
                drop(ended);
            }
        }
    }
}

/// Returns a time to live between nine tenths and all of `ttl`, so that keys that were made together aren't due
/// together.
fn with_jitter(ttl: Span) -> Span {
    let longest = Duration::from(ttl);
    (longest - up_to(longest / 10)).into()
}
