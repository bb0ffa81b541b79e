//! Logs when a store begins to fail, and when it answers again.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate_core::{Decision, Error, LimitName, Source, Span, StoreError, StoreId};
use tokio::time::Instant;

use crate::on_store_failure::OnStoreFailure;

/// Whether a store answers, as far as its limits have seen. The log has one line when the store begins to fail, and one
/// when it answers again, regardless of the number of requests. All limits of a registry share it.
///
/// Only awaited answers show a recovery, so that an immediate one costs nothing. A failure of a store that is never
/// awaited is logged once.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    /// Copy of the state in the history, to be read without its lock.
    is_failing: AtomicBool,
    history: Mutex<History>,
}

/// The store's changes, and which of them are in the log.
#[derive(Debug, Default)]
struct History {
    /// `None` while the store answers.
    failure: Option<Failure>,
    /// Whether the log's last line says that the store fails.
    is_told: bool,
    /// The time of the last line that said so.
    told_at: Option<Instant>,
    /// The number of times that the store began to fail or to answer without a line in the log.
    untold: u64,
}

/// A time in which the store doesn't answer.
#[derive(Debug)]
struct Failure {
    since: Instant,
    requests: u64,
}

impl StoreHealth {
    /// Notes that a request of `limit` failed, and that the limiter then does `then`.
    #[cold]
    pub(crate) fn failed(
        &self,
        store: &dyn Fn() -> StoreId,
        limit: &LimitName,
        then: OnStoreFailure,
        error: &StoreError,
    ) {
        // The log is written after the lock is free, because a subscriber may send a request.
        let Some(untold) = self.change(|history| history.failed(1)) else { return };
        let then = match then {
            OnStoreFailure::Error => "requests get an error: `on_store_failure` is `error`",
            OnStoreFailure::Allow => "requests pass uncounted: `on_store_failure` is `allow`",
            OnStoreFailure::Deny => "requests are denied: `on_store_failure` is `deny`",
            OnStoreFailure::Local => {
                "requests that can't be decided here get an error: `on_store_failure` is `local`"
            }
        };
        let more = left_out(untold);
        tracing::error!(
            store = store().to_string(),
            limit = limit.as_str(),
            "the store fails: {error}. Until it answers again, {then}{more}"
        );
    }

    /// Notes the outcome of a ping, which says that the store fails while no request asks it.
    pub(crate) fn pinged(&self, store: &dyn Fn() -> StoreId, outcome: Result<(), &StoreError>) {
        let Err(error) = outcome else {
            if self.is_failing.load(Ordering::Relaxed) {
                self.recovered(store);
            }
            return;
        };
        let Some(untold) = self.change(|history| history.failed(0)) else { return };
        tracing::error!(
            store = store().to_string(),
            "the store fails: {error}. Until it answers again, `on_store_failure` of each limit decides{}",
            left_out(untold)
        );
    }

    /// Notes that a request was answered that had to be awaited.
    #[inline]
    pub(crate) fn answered(&self, store: &dyn Fn() -> StoreId, decision: &Decision) {
        // A layer's decision tells nothing about the store below it.
        if self.is_failing.load(Ordering::Relaxed) && decision.source() == Source::Store {
            self.recovered(store);
        }
    }

    #[cold]
    fn recovered(&self, store: &dyn Fn() -> StoreId) {
        let Some(Failure { since, requests }) = self.change(History::recovered) else { return };
        let requests = match requests {
            1 => "1 request".to_owned(),
            many => format!("{many} requests"),
        };
        tracing::info!(
            store = store().to_string(),
            "the store answers again: {requests} failed in {}",
            Span::from(since.elapsed()).in_words()
        );
    }

    fn change<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let line = change(&mut history);
        self.is_failing.store(history.failure.is_some(), Ordering::Relaxed);
        line
    }
}

/// Logs work that wasn't done because of an error that no caller gets.
///
/// A store's failure is logged at level `DEBUG`: [`StoreHealth`] logs it once, regardless of the number of failed
/// requests.
#[cold]
pub(crate) fn log_unseen(limit: Option<&str>, error: &Error, what: &'static str) {
    if error.is_store_failure() {
        tracing::debug!(limit, %error, "{what}");
    } else {
        tracing::warn!(limit, %error, "{what}");
    }
}

/// Returns the end of a log line that follows `changes` changes without one.
fn left_out(changes: u64) -> String {
    match changes {
        0 => String::new(),
        1 => "; 1 change was left out since the last such line".to_owned(),
        many => format!("; {many} changes were left out since the last such line"),
    }
}

impl History {
    /// A store that fails and recovers repeatedly gets two lines in this time: one of each kind.
    const PAUSE: Duration = Duration::from_secs(10);

    /// Notes that this many requests failed. Returns the number of changes that were left out, if the failure must be
    /// logged.
    fn failed(&mut self, requests: u64) -> Option<u64> {
        if let (true, Some(failure)) = (self.is_told, &mut self.failure) {
            failure.requests += requests;
            return None;
        }
        let now = Instant::now();
        let untold = &mut self.untold;
        let failure = self.failure.get_or_insert_with(|| {
            *untold += 1;
            Failure { since: now, requests: 0 }
        });
        failure.requests += requests;
        if self.told_at.is_some_and(|told| now.duration_since(told) < Self::PAUSE) {
            // If it fails for longer, one of the next requests logs it.
            return None;
        }
        (self.is_told, self.told_at) = (true, Some(now));
        // Without the change that is logged now.
        Some(mem::take(&mut self.untold).saturating_sub(1))
    }

    /// Returns the failure that has ended, if the recovery must be logged.
    fn recovered(&mut self) -> Option<Failure> {
        let over = self.failure.take()?;
        if mem::take(&mut self.is_told) {
            return Some(over);
        }
        self.untold += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(over: Option<Failure>) -> Option<u64> {
        over.map(|failure| failure.requests)
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_comes_and_goes_is_told_once_in_ten_seconds() {
        let mut history = History::default();
        assert_eq!(requests(history.recovered()), None, "it answered all the time");
        assert_eq!((history.failed(1), history.failed(1)), (Some(0), None));
        assert_eq!(requests(history.recovered()), Some(2));
        for _ in 0..9 {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!((history.failed(1), requests(history.recovered())), (None, None));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(history.failed(1), Some(18));
        assert_eq!(requests(history.recovered()), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_began_too_soon_to_be_told_is_told_later() {
        let mut history = History::default();
        assert_eq!(history.failed(1), Some(0));
        assert_eq!(requests(history.recovered()), Some(1));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(history.failed(1), None);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(history.failed(1), Some(0), "it is the change that is told");
        let over = history.recovered().unwrap();
        assert_eq!((over.requests, over.since.elapsed()), (2, Duration::from_secs(6)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_tells_of_a_failure_and_is_no_request() {
        let mut history = History::default();
        assert_eq!(
            (history.failed(0), history.failed(1), history.failed(0)),
            (Some(0), None, None)
        );
        assert_eq!(requests(history.recovered()), Some(1));
    }
}
