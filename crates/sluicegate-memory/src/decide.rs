//! The decisions of an opened limit, and the `Store` implementation.

use std::future::{Future, Pending, ready};

use sluicegate_core::for_stores::{Bell, Post, Posted, Settings};
use sluicegate_core::{
    Answer, BannedKey, BoxFuture, Decision, Error, HoldId, Holder, Limit, Listing, OpenOptions,
    OpenedLimit, Page, Request, Store, StoreError, StoreId, StoreStats, Timestamp,
};

use crate::opened::{MemoryLimit, straight_cost};
use crate::store::{MemoryStore, Stats};
use crate::{fast, general, permits};

impl MemoryLimit {
    /// Answers a request, by the store's clock or the request's own time.
    ///
    /// ```
    /// use sluicegate_core::{Limit, OpenOptions, Request, Store};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("login", vec!["token_bucket 1/min burst 1"])?;
    /// let login = MemoryStore::new().open(limit, OpenOptions::default());
    /// assert!(login.decide(Request::check(b"alice"))?.is_allowed());
    /// assert!(login.decide(Request::check(b"alice"))?.is_denied());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Request`] for a malformed request, or if the caps can't hold one key of
    /// each open limit
    /// ([`RequestErrorKind::StoreTooSmall`](sluicegate_core::RequestErrorKind::StoreTooSmall)).
    /// This store never fails.
    #[inline]
    pub fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        self.decide_by(request, None)
    }

    /// Answers a request as if the store's clock showed `now`.
    ///
    /// Reading a clock takes longer than a decision, so several decisions can share one reading.
    ///
    /// If the key's newest time is more than
    /// [`Builder::max_clock_back`](crate::Builder::max_clock_back) ahead of `now`, the clock is
    /// read again, and a later time replaces `now`. So only a clock that stepped back restamps a
    /// key, not a late reading. A reading from before such a step counts as a step forward.
    ///
    /// Under injected time the request's own time is used.
    ///
    /// ```
    /// use sluicegate_core::{Limit, OpenOptions, Request, Store};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("api", vec!["gcra 1/s"])?;
    /// let store = MemoryStore::new();
    /// let api = store.open(limit, OpenOptions::default());
    /// let now = store.now();
    /// let allowed = ["a", "b", "a"].map(|key| {
    ///     api.decide_at(Request::check(key.as_bytes()), now).is_ok_and(|it| it.is_allowed())
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`MemoryLimit::decide`].
    #[inline]
    pub fn decide_at(&self, request: Request<'_>, now: Timestamp) -> Result<Decision, Error> {
        self.decide_by(request, Some(now))
    }

    /// Answers a request at the given time, or by the store's clock.
    #[inline]
    fn decide_by(&self, request: Request<'_>, given: Option<Timestamp>) -> Result<Decision, Error> {
        // Here the compiler knows the kind of the request, so most of this folds away.
        if let Some(policy) = self.straight_bucket()
            && let Some(cost) = straight_cost(&request, policy)
        {
            return fast::check(self, policy, request.key(), cost, given);
        }
        self.decide_other(&request, given)
    }

    /// Returns the units that each policy counts against the subjects of a request, rounded up.
    ///
    /// Forgetting the subjects would hand out these units again, including any debt. The result
    /// doesn't depend on the request's operation. `u64::MAX` stands for a state that the policy's
    /// numbers can't evaluate.
    ///
    /// ```
    /// use sluicegate_core::{Cost, Costs, Limit, OpenOptions, Operation, Request, Store};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("login", vec!["fixed_window 5/h"])?;
    /// let login = MemoryStore::new().open(limit, OpenOptions::default());
    /// let charge = Request::new(Operation::Charge, b"alice").costs(Costs::Same(Cost::new(7)?));
    /// assert!(login.decide(charge)?.is_allowed());
    /// assert_eq!(login.used(&Request::check(b"alice")), [7]);
    /// assert_eq!(login.used(&Request::check(b"bob")), [0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn used(&self, request: &Request<'_>) -> Vec<u64> {
        let first = self.store().fingerprint(request.key());
        general::used(self, request, first, request.time())
    }

    /// Answers a request on the paths other than the bucket's fast path.
    fn decide_other(
        &self,
        request: &Request<'_>,
        given: Option<Timestamp>,
    ) -> Result<Decision, Error> {
        request.validate_time(self.limit(), self.is_injected())?;
        self.check_fit()?;
        let first = self.store().fingerprint(request.key());
        permits::decide(self, request, first, request.time().or(given))
    }
}

impl OpenedLimit for MemoryLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        None
    }

    #[inline]
    fn limit(&self) -> &Limit {
        MemoryLimit::limit(self)
    }

    #[inline]
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::<Pending<_>>::Now(self.decide(request))
    }

    #[inline]
    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>> {
        Some(self.decide(request))
    }

    fn bell(&self, id: HoldId) -> Option<Bell> {
        Some(self.registry().bells.hang(id))
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(ready(self.list_holders(key, &page)))
    }

    fn exchange<'a>(
        &'a self,
        key: &'a [u8],
        post: Option<Post<'a>>,
    ) -> BoxFuture<'a, Result<Vec<Posted>, Error>> {
        Box::pin(ready(self.exchange_posts(key, post)))
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        Box::pin(ready(self.list_bans(&page)))
    }
}

impl Store for MemoryStore {
    type Opened = MemoryLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    fn id(&self) -> StoreId {
        self.store_id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> MemoryLimit {
        MemoryLimit::new(self.clone(), limit, options)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    /// Returns no problems, because this store supports every limit.
    fn rehearse(
        &self,
        _: Vec<(Limit, OpenOptions)>,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }

    fn maintain(&self) {
        self.sweep_some();
    }

    fn stats(&self) -> StoreStats {
        let Stats { keys, max_keys, evicted_live, bytes, max_bytes } = MemoryStore::stats(self);
        let mut stats = StoreStats::default();
        stats.keys = Some(keys as u64);
        stats.max_keys = Some(max_keys as u64);
        stats.evicted_live = Some(evicted_live);
        stats.bytes = Some(bytes as u64);
        stats.max_bytes = Some(max_bytes as u64);
        stats
    }
}
