//! Whether the store answers, told to the operator.

use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::{Answered, Observer, Source};

/// Tells once when the store begins to fail, and once when it answers again: not once a request.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    is_failing: AtomicBool,
}

impl Observer for StoreHealth {
    fn answered(&self, answered: &Answered<'_>) {
        if let Some(error) = answered.failure {
            if !self.is_failing.swap(true, Ordering::Relaxed) {
                tracing::error!("the store fails: {error}");
            }
        } else if answered.outcome.is_ok_and(|decision| decision.source() == Source::Store) {
            if self.is_failing.load(Ordering::Relaxed)
                && self.is_failing.swap(false, Ordering::Relaxed)
            {
                tracing::info!("the store answers again");
            }
        }
    }
}
