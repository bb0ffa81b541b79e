//! What is sent to the servers of a store.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts calls of the script, and the requests that travel in them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    calls: AtomicU64,
    requests: AtomicU64,
}

impl Traffic {
    /// A call with so many requests is sent.
    pub(super) fn count(&self, requests: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let requests = u64::try_from(requests).unwrap_or(u64::MAX);
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    /// The calls, and the requests in them.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }
}
