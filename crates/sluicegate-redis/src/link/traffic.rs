//! Counters of the calls to the servers of a store.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts script calls, and the requests in them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    calls: AtomicU64,
    requests: AtomicU64,
}

impl Traffic {
    /// Counts a call with this number of requests.
    pub(super) fn count(&self, requests: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let requests = u64::try_from(requests).unwrap_or(u64::MAX);
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    /// Returns the number of calls, and of the requests in them.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }
}
