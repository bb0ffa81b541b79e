//! A bound on the requests that are decided at the same time.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::error::ApiError;

/// Lets a bounded number of requests call the store.
///
/// Others wait here, first come, first served. A store with more calls than it can answer in time
/// answers none in time.
#[derive(Debug)]
pub(crate) struct Turns {
    most: usize,
    free: Semaphore,
    /// The requests that had no turn in time.
    refused: AtomicU64,
}

impl Turns {
    /// Maximum wait of a request. Few clients wait longer, and a request without a waiting client
    /// must not be charged.
    const PATIENCE: Duration = Duration::from_secs(1);

    pub(crate) fn new(most: NonZeroUsize) -> Self {
        let most = most.get().min(Semaphore::MAX_PERMITS);
        Self { most, free: Semaphore::new(most), refused: AtomicU64::new(0) }
    }

    /// Returns the number of requests that had no turn in time.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Waits for a turn. Dropping the permit ends the turn.
    ///
    /// # Errors
    /// Returns an error after one second.
    pub(crate) async fn next(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.within(Self::PATIENCE).await
    }

    /// Waits for a turn until `end`, at most one second.
    ///
    /// # Errors
    /// Returns an error if there was no turn in time.
    pub(super) async fn by(&self, end: Instant) -> Result<SemaphorePermit<'_>, ApiError> {
        let left = end.saturating_duration_since(Instant::now());
        self.within(left.min(Self::PATIENCE)).await
    }

    async fn within(&self, patience: Duration) -> Result<SemaphorePermit<'_>, ApiError> {
        if let Ok(turn) = self.free.try_acquire() {
            return Ok(turn);
        }
        match tokio::time::timeout(patience, self.free.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let message = format!(
                    "{} requests are being decided, and this one has waited for {} ms; nothing was \
                     charged: ask less often, or run more instances",
                    self.most,
                    patience.as_millis()
                );
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_its_turn_and_not_for_longer_than_a_second() {
        let turns = Turns::new(NonZeroUsize::MIN);
        let first = turns.next().await.unwrap();
        let error = turns.next().await.unwrap_err();
        assert!(format!("{error:?}").contains("overloaded"), "{error:?}");
        let (second, ()) = tokio::join!(turns.next(), async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            drop(first);
        });
        assert!(second.is_ok());
        let end = Instant::now() + Duration::from_millis(100);
        let error = turns.by(end).await.unwrap_err();
        assert!(format!("{error:?}").contains("waited for 100 ms"), "{error:?}");
        assert_eq!(Instant::now(), end);
    }
}
