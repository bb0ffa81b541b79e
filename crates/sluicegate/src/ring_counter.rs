//! Counting calls in slices of time.

use std::fmt;

use sluicegate_core::{Error, Limit, MAX_EXACT, Policy, SharedStore, SliceCounts, Span, Store};

use crate::ask::Ask;
use crate::limit::InvalidLimit;
use crate::limiter::Limiter;

/// Counts calls in slices of time, and reads any window of them: the last minute and the last
/// hour are two windows over one ring.
///
/// It decides nothing: whoever counts compares the totals with whatever bounds there are. The
/// counts are in the store, so a restart finds them and all nodes count together. A key takes
/// one place per slice that holds something, whatever is counted, and goes when its last slice
/// has left the ring.
///
/// ```
/// use sluicegate::{MemoryStore, RingCounter, Span};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let calls = RingCounter::new(MemoryStore::new(), "calls", Span::HOUR, 60)?;
/// for _ in 0..3 {
///     calls.count("export", 1).await?;
/// }
/// let counts = calls.read("export").await?;
/// assert_eq!(counts.current(), 3);
/// assert_eq!(counts.total(Span::MINUTE), Some(3), "at most 1,000 a minute");
/// assert_eq!(counts.total(Span::HOUR), Some(3), "at most 10,000 an hour");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RingCounter<S: Store = SharedStore> {
    limiter: Limiter<S>,
}

impl<S: Store> RingCounter<S> {
    /// Counts under `name` over a ring of this length, cut into 1 to 65,536 slices of whole
    /// milliseconds.
    ///
    /// # Errors
    /// When the name is no limit's name, or the ring can't be cut so.
    pub fn new(
        store: S,
        name: &str,
        ring: impl Into<Span>,
        slices: u64,
    ) -> Result<Self, InvalidLimit> {
        let name = name.parse().map_err(InvalidLimit::Name)?;
        let policy = Policy::sliding_window(MAX_EXACT, ring.into(), slices)
            .map_err(InvalidLimit::Numbers)?;
        let limit = Limit::new(name, vec![policy]).map_err(InvalidLimit::Set)?;
        Ok(Self { limiter: Limiter::new(store, limit) })
    }

    /// Counts `units` calls, from 1 to 2^53 − 1, and gives what the current slice holds then.
    ///
    /// # Errors
    /// When the store fails; when `units` is out of range or the sum would be.
    pub async fn count<K: AsRef<[u8]> + ?Sized>(&self, key: &K, units: u64) -> Result<u64, Error> {
        let decision = self.limiter.charge(Ask::new(key).cost(units)).await?;
        Ok(decision.policy(0).map_or(0, |outcome| outcome.current_slice()))
    }

    /// Reads the slices; writes nothing.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn read<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<SliceCounts, Error> {
        self.limiter.slices(key.as_ref()).await
    }

    /// Forgets a key.
    ///
    /// # Errors
    /// When the store fails.
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
