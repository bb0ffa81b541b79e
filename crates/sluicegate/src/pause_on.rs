//! `pause_on` of the middleware and the attribute: results that pause the key of their request.

use std::time::Duration;

use sluicegate_core::{Decision, Error};

use crate::store_health::log_unseen;

/// Returns the length of a pause, or `None` if it is shorter than the shortest pause of 1 ms.
pub(crate) fn length(lasts: Option<Duration>) -> Option<Duration> {
    lasts.filter(|lasts| *lasts >= Duration::from_millis(1))
}

/// Logs that a key could not be paused. The request has its result anyway.
pub(crate) fn log(limit: &str, answer: &Result<Decision, Error>) {
    match answer {
        Ok(decision) if decision.is_store_full() => {
            tracing::warn!(limit, "the key of a request could not be paused: the store is full");
        }
        Ok(_) => {}
        Err(error) if error.is_store_failure() => {
            log_unseen(Some(limit), error, "the key of a request could not be paused");
        }
        Err(error) => {
            tracing::error!(limit, %error, "the key of a request can't be paused: correct `pause_on`");
        }
    }
}
