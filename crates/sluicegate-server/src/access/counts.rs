//! Counts of requests and refusals.

use std::sync::atomic::{AtomicU64, Ordering};

use super::refusal::RefusalKind;

/// Counts of the requests and refusals of one caller, or of all unknown callers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    refusals: [AtomicU64; RefusalKind::ALL.len()],
}

impl Counts {
    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_refusal(&self, kind: RefusalKind) {
        self.refusals[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn refusals(&self, kind: RefusalKind) -> u64 {
        self.refusals[kind as usize].load(Ordering::Relaxed)
    }
}
