//! The log of makers that fail for keys with known numbers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sluicegate_core::Error;
use tokio::time::Instant;

/// The failures of a maker that no request gets, because the numbers of the key are known. The log has one line a
/// minute, regardless of the number of keys.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<History>);

#[derive(Debug, Default)]
struct History {
    told_at: Option<Instant>,
    untold: u64,
}

impl Refusals {
    const PAUSE: Duration = Duration::from_secs(60);

    #[cold]
    pub(super) fn note(&self, limit: &str, error: &Error) {
        let mut history = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if history.told_at.is_some_and(|told| told.elapsed() < Self::PAUSE) {
            history.untold += 1;
            return;
        }
        history.told_at = Some(Instant::now());
        let untold = std::mem::take(&mut history.untold);
        // The log is written after the lock is free, because a subscriber may send a request.
        drop(history);
        let more = if untold == 0 {
            String::new()
        } else {
            format!("; {untold} more failures since the last line")
        };
        tracing::warn!(limit, "a key keeps its old numbers: {error}{more}");
    }
}
