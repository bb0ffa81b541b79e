//! The embedded store.

use std::fmt;
use std::sync::Arc;

use sluicegate_core::kernel::Times;
use sluicegate_core::{
    Clock, Costs, Decision, EmbeddedStore, Limit, Operation, Request, SliceCounts, Store,
    StoreError, TimeSource, Timestamp,
};

use crate::builder::{Builder, Overflow};
use crate::cell::BucketCell;
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::handle::{Handle, SeatOf};
use crate::receipt::Receipt;
use crate::registry::Registry;
use crate::{many, one};

/// A store inside the process.
///
/// It holds at most [`Builder::max_keys`] keys. States that equal a fresh key's are removed by
/// and by as new keys come; call [`MemoryStore::sweep_some`] now and then to have that done
/// without them.
pub struct MemoryStore {
    registry: Arc<Registry>,
    fingerprinter: Fingerprinter,
}

/// What a store holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The keys kept, counted once for each policy that keeps something of them.
    pub keys: usize,
    /// The most there may be.
    pub max_keys: usize,
    /// Keys that were forgotten to make room although they did not equal a fresh one.
    pub evicted_live: u64,
    /// Bytes taken for them.
    pub bytes: usize,
}

impl MemoryStore {
    /// A store of a million keys on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Builder::default().build()
    }

    /// A store of another size, on another clock, or strict at its cap.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn with(
        clock: Box<dyn Clock>,
        most: usize,
        overflow: Overflow,
        max_clock_back: u64,
    ) -> Self {
        let registry = Arc::new(Registry::new(clock, most, overflow, max_clock_back));
        Self { registry, fingerprinter: Fingerprinter::new() }
    }

    /// What the store's clock shows, for [`MemoryStore::decide_at`].
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.registry.clock.now()
    }

    /// Answers one request as if the store's clock showed `now`: reading a clock takes longer than
    /// a decision, and many decisions can share one reading.
    ///
    /// Where the key's newest time lies more than [`Builder::max_clock_back`] ahead of `now`, the
    /// clock is read again: if it shows a later time, that counts. Only a clock that stepped back
    /// sets a key back, not a reading that is late.
    ///
    /// For a handle under injected time the request's own time counts.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate_core::{Limit, Request, Store, TimeSource};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("api".parse()?, vec!["gcra 1/s".parse()?])?;
    /// let store = MemoryStore::new();
    /// let api = store.open(Arc::new(limit), TimeSource::Store);
    /// let now = store.now();
    /// let allowed = ["a", "b", "a"].map(|key| {
    ///     store.decide_at(&api, Request::check(key.as_bytes()), now).is_ok_and(|it| it.is_allowed())
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`StoreErrorKind`](sluicegate_core::StoreErrorKind): an embedded store doesn't time out.
    #[inline]
    pub fn decide_at(
        &self,
        handle: &Handle,
        request: Request<'_>,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.decide_known(handle, &request, self.fingerprint(request.key), now)
    }

    #[inline]
    pub(crate) fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        self.fingerprinter.of(key)
    }

    /// Answers a request whose key has been hashed already.
    #[inline]
    pub(crate) fn decide_known(
        &self,
        handle: &Handle,
        request: &Request<'_>,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        handle.check_time(request)?;
        let times = handle.times(request, now);
        let general = || many::decide(&self.fingerprinter, handle, request, fingerprint, times);
        if let Some(seat) = handle.straight_bucket()
            && let Some(cost) = straight_cost(request, seat)
        {
            return one::check(handle.registry(), seat, fingerprint, cost, times, general);
        }
        general()
    }

    /// [`Store::reserve`] at once.
    ///
    /// # Errors
    /// Like [`EmbeddedStore::decide_now`].
    pub fn reserve_now(
        &self,
        handle: &Handle,
        request: Request<'_>,
    ) -> Result<(Decision, Option<Receipt>), StoreError> {
        let times = self.times(handle, &request)?;
        let fingerprint = self.fingerprint(request.key);
        many::reserve(&self.fingerprinter, handle, &request, fingerprint, times)
    }

    /// [`Store::slices`] at once.
    ///
    /// # Errors
    /// Like [`EmbeddedStore::decide_now`].
    pub fn slices_now(
        &self,
        handle: &Handle,
        request: Request<'_>,
    ) -> Result<SliceCounts, StoreError> {
        let times = self.times(handle, &request)?;
        many::slices(handle, self.fingerprint(request.key), times)
    }

    /// [`Store::cancel`] at once.
    #[must_use]
    pub fn cancel_now(&self, handle: &Handle, receipt: &Receipt) -> bool {
        many::cancel(handle, receipt)
    }

    /// Removes states that equal a fresh key's from the next few thousand places, and gives how
    /// many there were. A maintenance task that calls this once a second keeps an idle store
    /// from holding on to its memory.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn sweep_some(&self) -> usize {
        self.registry.sweep(SHARDS_PER_SWEEP)
    }

    /// Removes all states that equal a fresh key's, and gives how many there were. Decisions go on
    /// meanwhile.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn purge(&self) -> usize {
        self.registry.sweep(self.registry.shards())
    }

    /// What the store holds. Counting the bytes looks at every shard: not for every request.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let budget = &self.registry.budget;
        Stats {
            keys: budget.taken(),
            max_keys: budget.most(),
            evicted_live: budget.evicted_live(),
            bytes: self.registry.bytes(),
        }
    }

    /// The time by which a request is judged.
    fn times(&self, handle: &Handle, request: &Request<'_>) -> Result<Times, StoreError> {
        handle.check_time(request)?;
        Ok(handle.times(request, self.present(handle)))
    }

    /// Now, where requests don't bring their own time.
    #[inline]
    fn present(&self, handle: &Handle) -> Timestamp {
        if handle.is_injected() { Timestamp::EPOCH } else { self.now() }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.registry.budget.taken())
            .field("max_keys", &self.registry.budget.most())
            .finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    type Handle = Handle;
    type Receipt = Receipt;

    fn open(&self, limit: Arc<Limit>, time: TimeSource) -> Handle {
        Handle::new(&self.registry, limit, &time)
    }

    async fn decide<'a>(
        &'a self,
        handle: &'a Handle,
        request: Request<'a>,
    ) -> Result<Decision, StoreError> {
        self.decide_now(handle, request)
    }

    fn decide_at_once(
        &self,
        handle: &Handle,
        request: Request<'_>,
    ) -> Option<Result<Decision, StoreError>> {
        Some(self.decide_now(handle, request))
    }

    async fn reserve<'a>(
        &'a self,
        handle: &'a Handle,
        request: Request<'a>,
    ) -> Result<(Decision, Option<Receipt>), StoreError> {
        self.reserve_now(handle, request)
    }

    async fn cancel<'a>(
        &'a self,
        handle: &'a Handle,
        receipt: &'a Receipt,
    ) -> Result<bool, StoreError> {
        Ok(self.cancel_now(handle, receipt))
    }

    async fn slices<'a>(
        &'a self,
        handle: &'a Handle,
        request: Request<'a>,
    ) -> Result<SliceCounts, StoreError> {
        self.slices_now(handle, request)
    }
}

impl EmbeddedStore for MemoryStore {
    #[inline]
    fn decide_now(&self, handle: &Handle, request: Request<'_>) -> Result<Decision, StoreError> {
        self.decide_at(handle, request, self.present(handle))
    }
}

/// The cost of a plain check, which takes the straight path.
#[inline]
pub(crate) fn straight_cost(request: &Request<'_>, seat: &SeatOf<BucketCell>) -> Option<u64> {
    // The costs are looked at where they are: a copy would wait for all of their bytes to arrive.
    if !request.also.is_empty() {
        return None;
    }
    match (&request.operation, &request.costs) {
        (Operation::Check, Costs::Own) => Some(seat.own_cost),
        (Operation::Check, Costs::Same(cost)) => Some(cost.get()),
        _ => None,
    }
}

/// Some thousands of places in a large store.
const SHARDS_PER_SWEEP: usize = 4;
