//! Notification of new numbers.

use tokio::sync::watch;
use tokio::time::Instant;

use crate::timer::{sleep_until, timeout_at};

/// A notifier of new numbers of limits. The numbers of a limiter never change.
#[derive(Debug)]
pub struct NewNumbers(Option<watch::Receiver<u64>>);

impl NewNumbers {
    pub(crate) const fn never() -> Self {
        Self(None)
    }

    pub(crate) const fn of(generations: watch::Receiver<u64>) -> Self {
        Self(Some(generations))
    }

    /// Counts the numbers in force as seen.
    pub(crate) fn mark_seen(&mut self) {
        if let Some(generations) = &mut self.0 {
            generations.mark_unchanged();
        }
    }

    /// Waits until `then`, or until there are new numbers.
    pub(crate) async fn wait_until(&mut self, then: Instant) {
        match &mut self.0 {
            // The sender exists as long as the gate.
            Some(generations) => {
                let _ = timeout_at(then, generations.changed()).await;
            }
            None => sleep_until(then).await,
        }
    }
}
