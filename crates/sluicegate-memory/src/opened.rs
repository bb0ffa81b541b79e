//! A limit made ready, so that a decision looks nothing up by name.

use std::fmt;
use std::future::{Future, Pending};

use sluicegate_core::kernel::Now;
use sluicegate_core::{
    Action, Answer, Costs, Decision, DeniedCharge, Enforcement, Error, Limit, OpenOptions,
    OpenedLimit, Operation, Request, TimeSource, Timestamp,
};

use crate::cell::BucketCell;
use crate::fingerprint::Fingerprint;
use crate::kernels::Seat;
use crate::registry::Registry;
use crate::seat::SeatOf;
use crate::store::MemoryStore;
use crate::{fast, general};

/// A limit that a [`MemoryStore`] has opened.
///
/// What is opened under one limit name shares its states. Those under injected time are dropped
/// with the last opened limit of their run.
pub struct MemoryLimit {
    limit: Limit,
    /// One for each policy, in their order.
    seats: Box<[Seat]>,
    /// The indices of the policies in the order in which their shards are locked.
    lock_order: Box<[usize]>,
    /// Whether nothing is special about any policy.
    is_straight: bool,
    /// `None` under injected time.
    max_clock_back: Option<u64>,
    // The last field: it is dropped when the seats have been left.
    run: Run,
}

impl MemoryLimit {
    pub(crate) fn new(store: MemoryStore, limit: Limit, options: OpenOptions) -> Self {
        let time = options.time;
        let seats = store.registry().seats(&limit, &time);
        let mut lock_order: Box<[usize]> = (0..seats.len()).collect();
        lock_order.sort_by_key(|&index| seats[index].table_id());
        let is_straight = limit.members().iter().all(|member| {
            member.policy().enforcement() == Enforcement::Enforced
                && member.policy().denied_charge() == DeniedCharge::Free
        });
        let injected = !matches!(time, TimeSource::Store);
        Self {
            limit: limit.keep(),
            seats,
            lock_order,
            is_straight,
            max_clock_back: (!injected).then_some(store.registry().max_clock_back()),
            run: Run(store, time),
        }
    }

    /// Answers a request, by the store's clock or the request's own time.
    ///
    /// ```
    /// use sluicegate_core::{Limit, OpenOptions, Request, Store};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("login".parse()?, vec!["token_bucket 1/min burst 1".parse()?])?;
    /// let login = MemoryStore::new().open(limit, OpenOptions::default());
    /// assert!(login.decide(Request::check(b"alice"))?.is_allowed());
    /// assert!(login.decide(Request::check(b"alice"))?.is_denied());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Request`] for a malformed request: this store never fails.
    #[inline]
    pub fn decide(&self, request: Request<'_>) -> Result<Decision, Error> {
        // A clock takes as long to read as a decision to make.
        let now = if self.is_injected() { Timestamp::EPOCH } else { self.store().now() };
        self.decide_at(request, now)
    }

    /// Answers a request as if the store's clock showed `now`: reading a clock takes longer than
    /// a decision, and many decisions can share one reading.
    ///
    /// Where the key's newest time lies more than
    /// [`Builder::max_clock_back`](crate::Builder::max_clock_back) ahead of `now`, the clock is
    /// read again: if it shows a later time, that counts. Only a clock that stepped back sets a
    /// key back, not a reading that is late.
    ///
    /// Under injected time the request's own time counts.
    ///
    /// ```
    /// use sluicegate_core::{Limit, OpenOptions, Request, Store};
    /// use sluicegate_memory::MemoryStore;
    ///
    /// let limit = Limit::new("api".parse()?, vec!["gcra 1/s".parse()?])?;
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
    /// Like [`MemoryLimit::decide`].
    #[inline]
    pub fn decide_at(&self, request: Request<'_>, now: Timestamp) -> Result<Decision, Error> {
        let fingerprint = self.store().fingerprint(request.key());
        self.decide_known(&request, fingerprint, now)
    }

    /// Answers a request whose key has been hashed already.
    #[inline]
    pub(crate) fn decide_known(
        &self,
        request: &Request<'_>,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Decision, Error> {
        request.validate_time(&self.limit, self.is_injected())?;
        let now = Now {
            micros: request.time().unwrap_or(now).as_micros(),
            max_clock_back: self.max_clock_back,
        };
        if let Some(seat) = self.straight_bucket()
            && let Some(cost) = straight_cost(request, seat)
        {
            return fast::check(self, seat, request, fingerprint, cost, now);
        }
        general::decide(self, request, fingerprint, now)
    }

    pub(crate) const fn seats(&self) -> &[Seat] {
        &self.seats
    }

    pub(crate) const fn lock_order(&self) -> &[usize] {
        &self.lock_order
    }

    pub(crate) const fn store(&self) -> &MemoryStore {
        &self.run.0
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.store().registry()
    }

    pub(crate) const fn time(&self) -> &TimeSource {
        &self.run.1
    }

    /// The only seat, if it is at a bucket that nothing is special about.
    #[inline]
    fn straight_bucket(&self) -> Option<&SeatOf<BucketCell>> {
        match &*self.seats {
            [Seat::Bucket(seat)] if self.is_straight => Some(seat),
            _ => None,
        }
    }

    /// Whether requests bring their own time.
    #[inline]
    const fn is_injected(&self) -> bool {
        self.max_clock_back.is_none()
    }
}

impl OpenedLimit for MemoryLimit {
    #[inline]
    fn limit(&self) -> &Limit {
        &self.limit
    }

    #[inline]
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::<Pending<_>>::Now(self.decide(request))
    }
}

/// The cost of a plain check, which takes the straight path.
#[inline]
fn straight_cost(request: &Request<'_>, seat: &SeatOf<BucketCell>) -> Option<u64> {
    if !request.further_subjects().is_empty() {
        return None;
    }
    match (request.action(), request.cost()) {
        (Action::Decide(Operation::Check), Costs::Own) => Some(seat.own_cost),
        (Action::Decide(Operation::Check), Costs::Same(cost)) => Some(cost.get()),
        _ => None,
    }
}

impl fmt::Debug for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLimit")
            .field("limit", self.limit.name())
            .field("injected", &self.is_injected())
            .finish_non_exhaustive()
    }
}

/// An opened limit's share in its run of injected time, if it is of one.
struct Run(MemoryStore, TimeSource);

impl Drop for Run {
    fn drop(&mut self) {
        if self.1 != TimeSource::Store {
            self.0.registry().leave(&self.1);
        }
    }
}
