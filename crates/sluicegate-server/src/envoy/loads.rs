//! The loads of rules so far.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The number of loads, by their outcome.
#[derive(Debug, Default)]
pub(super) struct Loads {
    good: AtomicU64,
    failed: AtomicU64,
    loaded: Notify,
}

impl Loads {
    /// Counts a load whose rules are in force.
    pub(super) fn succeeded(&self) {
        self.good.fetch_add(1, Ordering::Relaxed);
        self.loaded.notify_waiters();
    }

    /// Counts a load whose rules were refused.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of loads that are in force or were, and of those that failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.good.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Waits for the first rules.
    pub(super) async fn first(&self) {
        // Registered before the look, so no load is missed.
        let loaded = self.loaded.notified();
        if self.counts().0 == 0 {
            loaded.await;
        }
    }
}
