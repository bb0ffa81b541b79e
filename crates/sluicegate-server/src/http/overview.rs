//! The state that the streams of operators share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::activity::Problem;
use crate::decisions::DecisionLog;

/// The state that the streams of operators share.
pub(crate) struct Overview {
    pub(super) started: Instant,
    /// Number of the last second that was observed.
    pub(super) seconds: watch::Sender<u64>,
    problems: Mutex<Arc<[Problem]>>,
    streams: Arc<Semaphore>,
    store_kind: OnceLock<&'static str>,
    log: OnceLock<Arc<DecisionLog>>,
}

impl Overview {
    /// Maximum number of streams.
    pub(super) const MOST_STREAMS: usize = 32;

    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            seconds: watch::Sender::new(0),
            problems: Mutex::new(Arc::new([])),
            streams: Arc::new(Semaphore::new(Self::MOST_STREAMS)),
            store_kind: OnceLock::new(),
            log: OnceLock::new(),
        }
    }

    /// Sets the kind of the store. Only the first call has an effect.
    pub(crate) fn set_store_kind(&self, kind: &'static str) {
        let _ = self.store_kind.set(kind);
    }

    /// Sets the decision log. Only the first call has an effect.
    pub(crate) fn set_log(&self, log: Arc<DecisionLog>) {
        let _ = self.log.set(log);
    }

    pub(super) fn store_kind(&self) -> &'static str {
        self.store_kind.get().copied().unwrap_or("other")
    }

    /// Returns the number of lines that the decision log lacks.
    pub(super) fn log_left_out(&self) -> u64 {
        self.log.get().map_or(0, |log| log.left_out())
    }

    /// Returns a place for a stream, which is free again when dropped; `None` if all are taken.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().ok()
    }

    /// Returns the number of streams.
    pub(super) fn streams(&self) -> usize {
        Self::MOST_STREAMS.saturating_sub(self.streams.available_permits())
    }

    pub(super) fn problems(&self) -> Arc<[Problem]> {
        Arc::clone(&self.problems.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_problems(&self, problems: Vec<Problem>) {
        *self.problems.lock().unwrap_or_else(PoisonError::into_inner) = problems.into();
    }
}
