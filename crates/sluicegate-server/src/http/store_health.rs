//! Logs whether the store answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluicegate::{Answered, Observer, Source};

/// Logs once when the store begins to fail, and once when it answers again, rather than per
/// request. It logs unreadable states ever more rarely.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    is_failing: AtomicBool,
    discarded: AtomicU64,
}

impl StoreHealth {
    /// Logged for the 1st, 2nd, 4th, 8th …: a foreign program that writes under our keys would
    /// otherwise fill the log.
    fn discarded(&self, limit: &str) {
        let count = self.discarded.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if count.is_power_of_two() {
            tracing::warn!(
                "a stored state of the limit {limit} could not be read and counted as absent, {count} so far"
            );
        }
    }
}

impl Observer for StoreHealth {
    fn answered(&self, answered: &Answered<'_>) {
        if let Some(error) = answered.failure {
            if !self.is_failing.swap(true, Ordering::Relaxed) {
                tracing::error!("the store fails: {error}");
            }
            return;
        }
        let Ok(decision) = answered.outcome else { return };
        if decision.notes().discarded {
            self.discarded(answered.limit.name().as_str());
        }
        let answers = decision.source() == Source::Store && self.is_failing.load(Ordering::Relaxed);
        if answers && self.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the store answers again");
        }
    }
}
