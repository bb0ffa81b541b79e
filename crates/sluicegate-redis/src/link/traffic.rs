//! The number and the durations of the calls to the servers of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::{Histogram, Measure};

/// Counts script calls, and the requests in them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    calls: AtomicU64,
    requests: AtomicU64,
    durations: Histogram,
}

impl Traffic {
    /// Counts a call with this number of requests.
    pub(super) fn count(&self, requests: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let requests = u64::try_from(requests).unwrap_or(u64::MAX);
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    /// Counts a call that was answered this long after it was sent.
    pub(super) fn answered(&self, took: Duration) {
        self.durations.observe(took);
    }

    /// Returns the counts, for a metrics page.
    pub(crate) fn measures(&self) -> Vec<Measure> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let help = "Calls of the script that were sent to servers";
        let calls = Measure::counter("store_calls", help, read(&self.calls));
        let help = "Requests in the calls that were sent to servers";
        let requests = Measure::counter("store_requests", help, read(&self.requests));
        let help = "Time from sending a call of the script to its reply";
        vec![
            calls,
            requests,
            Measure::histogram("store_call_seconds", help, self.durations.counts()),
        ]
    }
}
