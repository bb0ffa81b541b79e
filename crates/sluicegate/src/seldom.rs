//! Log lines about failures that may be frequent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A log line that is written once a minute at most, regardless of how often its event occurs.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<History>);

#[derive(Debug, Default)]
struct History {
    told_at: Option<Instant>,
    untold: u64,
}

impl Seldom {
    const PAUSE: Duration = Duration::from_secs(60);

    /// Calls `log` with the end of the line, unless it was called in the last minute.
    #[cold]
    pub(crate) fn tell(&self, log: impl FnOnce(&str)) {
        let mut history = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if history.told_at.is_some_and(|told| told.elapsed() < Self::PAUSE) {
            history.untold += 1;
            return;
        }
        history.told_at = Some(Instant::now());
        let untold = std::mem::take(&mut history.untold);
        // The log is written after the lock is free, because a subscriber may send a request.
        drop(history);
        match untold {
            0 => log(""),
            more => log(&format!("; left out since the last such line: {more}")),
        }
    }
}
