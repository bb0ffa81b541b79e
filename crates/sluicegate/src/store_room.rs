//! Logs when the embedded store is full, and when it has capacity again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate_core::{LimitName, Span};
use tokio::time::Instant;

/// Whether the embedded store denies keys for lack of memory. The log has one line when it begins, and one when it has
/// not done so for ten seconds. All limits of a registry share it.
#[derive(Debug, Default)]
pub(crate) struct StoreRoom {
    /// Copy of the state in the history, to be read without its lock.
    is_full: AtomicBool,
    history: Mutex<Option<Denials>>,
}

/// Denials for lack of memory, each within ten seconds after the one before.
#[derive(Clone, Copy, Debug)]
struct Denials {
    since: Instant,
    last: Instant,
    count: u64,
}

impl StoreRoom {
    /// Time without such a denial after which the store counts as having capacity.
    const PAUSE: Duration = Duration::from_secs(10);

    /// Notes that a request of `limit` was denied because the store is full.
    #[cold]
    pub(crate) fn is_full(&self, limit: &LimitName) {
        // The log is written after the lock is free, because a subscriber may send a request.
        if self.change(Self::begun).is_some() {
            tracing::warn!(
                limit = limit.as_str(),
                "the embedded store is full: keys that it doesn't know are denied. Raise `memory.max_keys` and \
                 `memory.max_bytes`, or set `memory.overflow` to `evict`"
            );
        }
    }

    /// Notes that a request was answered, and not denied because the store is full.
    #[inline]
    pub(crate) fn has_room(&self) {
        if self.is_full.load(Ordering::Relaxed) {
            self.look();
        }
    }

    #[cold]
    fn look(&self) {
        if let Some(Denials { since, last, count }) = self.change(Self::ended) {
            let lasted = Span::from(last.duration_since(since)).in_words();
            tracing::info!(
                "the embedded store has capacity again: in {lasted} it denied {count} requests"
            );
        }
    }

    fn begun(denials: &mut Option<Denials>) -> Option<Denials> {
        let now = Instant::now();
        if let Some(known) = denials.as_mut().filter(|it| !it.are_over(now)) {
            (known.last, known.count) = (now, known.count + 1);
            return None;
        }
        denials.replace(Denials { since: now, last: now, count: 1 });
        *denials
    }

    fn ended(denials: &mut Option<Denials>) -> Option<Denials> {
        denials.take_if(|it| it.are_over(Instant::now()))
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Option<Denials>) -> Option<Denials>,
    ) -> Option<Denials> {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let line = change(&mut history);
        self.is_full.store(history.is_some(), Ordering::Relaxed);
        line
    }
}

impl Denials {
    fn are_over(&self, now: Instant) -> bool {
        now.duration_since(self.last) >= StoreRoom::PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_store_is_told_once_and_so_is_its_end() {
        let mut denials = None;
        let count = |denials: Option<Denials>| denials.map(|denials| denials.count);
        assert_eq!(count(StoreRoom::ended(&mut denials)), None, "it had capacity");
        assert_eq!(count(StoreRoom::begun(&mut denials)), Some(1));
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(9)).await;
            assert_eq!(count(StoreRoom::ended(&mut denials)), None);
            assert_eq!(count(StoreRoom::begun(&mut denials)), None, "it is still full");
        }
        tokio::time::advance(StoreRoom::PAUSE).await;
        assert_eq!(count(StoreRoom::ended(&mut denials)), Some(6));
        assert_eq!(count(StoreRoom::ended(&mut denials)), None);
        assert_eq!(count(StoreRoom::begun(&mut denials)), Some(1), "another time");
    }
}
