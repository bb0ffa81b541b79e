//! Counting events in slices of time.

use std::fmt;
use std::time::Duration;

use sluicegate_core::{
    Error, Limit, LimitError, MAX_EXACT, Policy, SharedStore, SliceCounts, Store,
};

use crate::ask::Ask;
use crate::limiter::Limiter;

/// Counts events in slices of time, and reads the total over any window of slices. For example, the last minute and the
/// last hour can share one ring.
///
/// It decides nothing: compare the totals with your own bounds. The counts are in the store, so they survive a restart,
/// and all nodes count together. A key takes one entry per non-empty slice, and expires when its last slice has left
/// the ring.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::MemoryStore;
/// use sluicegate::counter::RingCounter;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let calls = RingCounter::new(MemoryStore::new(), "calls", Duration::from_secs(60 * 60), 60)?;
/// for _ in 0..3 {
///     calls.count("export", 1).await?;
/// }
/// let counts = calls.read("export").await?;
/// assert_eq!(counts.current(), 3);
/// assert_eq!(counts.total(Duration::from_secs(60)), Some(3), "at most 1,000 a minute");
/// assert_eq!(counts.total(Duration::from_secs(60 * 60)), Some(3), "at most 10,000 an hour");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RingCounter<S: Store = SharedStore> {
    limiter: Limiter<S>,
}

impl<S: Store> RingCounter<S> {
    /// Makes a counter called `name`, with a ring of this length that is divided into 1 to 65,536 slices of whole
    /// milliseconds.
    ///
    /// # Errors
    /// Returns an error if the name is not a valid limit name, or if the ring can't be divided like that.
    pub fn new(store: S, name: &str, ring: Duration, slices: u64) -> Result<Self, LimitError> {
        let policy = Policy::sliding_window(MAX_EXACT, ring, slices)?;
        let limit = Limit::new(name, [policy])?;
        Ok(Self { limiter: Limiter::new(store, limit) })
    }

    /// Counts `units` events, from 1 to 2^53 − 1, and returns the new count of the current slice.
    ///
    /// # Errors
    /// Returns an error if the store fails, or if `units` or the sum is out of range.
    pub async fn count<K: AsRef<[u8]> + ?Sized>(&self, key: &K, units: u64) -> Result<u64, Error> {
        let decision = self.limiter.charge(Ask::new(key).cost(units)).await?;
        Ok(decision.policy(0).map_or(0, |outcome| outcome.current_slice()))
    }

    /// Reads the slices. Writes nothing.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn read<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<SliceCounts, Error> {
        self.limiter.slices(key.as_ref()).await
    }

    /// Forgets a key's counts.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn reset<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<(), Error> {
        self.limiter.reset(key).await.map(drop)
    }
}

impl<S: Store> Clone for RingCounter<S> {
    fn clone(&self) -> Self {
        Self { limiter: self.limiter.clone() }
    }
}

impl<S: Store> fmt::Debug for RingCounter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingCounter").field("limiter", &self.limiter).finish()
    }
}
