//! Logs states that could not be read.

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate::admin::{Answered, Observer};

/// Logs unreadable states at exponentially growing intervals. Otherwise a foreign program that
/// writes under Sluicegate's keys would fill the log.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    seen: AtomicU64,
}

impl Observer for Unreadable {
    fn answered(&self, answered: &Answered<'_>) {
        if !answered.outcome.is_ok_and(|decision| decision.warnings().discarded) {
            return;
        }
        // The 1st, 2nd, 4th, 8th …
        let count = self.seen.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if count.is_power_of_two() {
            let limit = answered.limit.name();
            tracing::warn!(
                "a stored state of the limit {limit} could not be read and counted as absent, {count} so far"
            );
        }
    }
}
