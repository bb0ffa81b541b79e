//! What is prepared once per limit, so that a decision looks nothing up by name.

use std::fmt;
use std::sync::Arc;

use sluicegate_core::kernel::{Times, counter, warm_up, window};
use sluicegate_core::{
    Cost, DeniedCharge, Enforcement, Limit, Request, StoreError, StoreErrorKind, TimeSource,
    Timestamp,
};

use crate::cell::{BucketCell, Cell, LogCell};
use crate::registry::Registry;
use crate::scales::Tag;
use crate::table::Table;

/// A limit made ready in a [`MemoryStore`](crate::MemoryStore).
///
/// Handles of one limit share their states. Those under injected time are dropped with the last
/// handle of their run.
pub struct Handle {
    limit: Arc<Limit>,
    /// One for each policy, in their order.
    seats: Box<[Seat]>,
    /// The indices of the policies in the order in which their shards are locked.
    lock_order: Box<[usize]>,
    straight: bool,
    /// `None` under injected time.
    max_clock_back: Option<u64>,
    // The last field: it is dropped when the seats have been left.
    lease: Lease,
}

/// A handle's share in the table of one policy.
pub(crate) enum Seat {
    Bucket(SeatOf<BucketCell>),
    Counter(SeatOf<counter::State>),
    Log(SeatOf<LogCell>),
    WarmUp(SeatOf<warm_up::State>),
    Window(SeatOf<window::State>),
}

/// The same, of a known kernel.
pub(crate) struct SeatOf<C: Cell> {
    pub(crate) table: Arc<Table<C>>,
    pub(crate) rule: C::Rule,
    /// The scale its states are written in.
    pub(crate) tag: Tag,
    /// What a request costs that doesn't say.
    pub(crate) own_cost: u64,
}

impl Handle {
    pub(crate) fn new(registry: &Arc<Registry>, limit: Arc<Limit>, time: &TimeSource) -> Self {
        let seats = registry.seats(&limit, time);
        let mut lock_order: Box<[usize]> = (0..seats.len()).collect();
        lock_order.sort_by_key(|&index| seats[index].table_id());
        let straight = limit.members().iter().all(|member| {
            member.policy().enforcement() == Enforcement::Enforced
                && member.policy().denied_charge() == DeniedCharge::Free
        });
        let injected = !matches!(time, TimeSource::Store);
        Self {
            limit,
            seats,
            lock_order,
            straight,
            max_clock_back: (!injected).then_some(registry.max_clock_back()),
            lease: Lease(Arc::clone(registry), time.clone()),
        }
    }

    /// The limit that was opened.
    #[must_use]
    pub const fn limit(&self) -> &Arc<Limit> {
        &self.limit
    }

    pub(crate) const fn seats(&self) -> &[Seat] {
        &self.seats
    }

    pub(crate) const fn lock_order(&self) -> &[usize] {
        &self.lock_order
    }

    /// The only seat, if it is at a bucket that nothing is special about.
    #[inline]
    pub(crate) fn straight_bucket(&self) -> Option<&SeatOf<BucketCell>> {
        match &*self.seats {
            [Seat::Bucket(seat)] if self.straight => Some(seat),
            _ => None,
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.lease.0
    }

    pub(crate) const fn time(&self) -> &TimeSource {
        &self.lease.1
    }

    /// Whether requests bring their own time.
    #[inline]
    pub(crate) const fn is_injected(&self) -> bool {
        self.max_clock_back.is_none()
    }

    /// What a request is judged by, if the store's clock shows `now`.
    #[inline]
    pub(crate) fn times(&self, request: &Request<'_>, now: Timestamp) -> Times {
        Times { now: request.at.unwrap_or(now).as_micros(), max_clock_back: self.max_clock_back }
    }

    /// Refuses a request that brings a time to a limit on the store's clock, or none to one that
    /// is judged by it.
    // Apart from `times`: what comes out of one `Result` is written to memory and waited for.
    #[inline]
    pub(crate) fn check_time(&self, request: &Request<'_>) -> Result<(), StoreError> {
        match (self.is_injected(), request.at.is_some()) {
            (false, true) => Err(self.misplaced_time()),
            (true, false) => Err(self.missing_time()),
            (false, false) | (true, true) => Ok(()),
        }
    }

    #[cold]
    fn misplaced_time(&self) -> StoreError {
        StoreError::new(
            StoreErrorKind::InvalidRequest,
            format!(
                "the request carries a time, but limit `{}` was opened with the store's own clock: leave \
                 `at` out, or open the limit with TimeSource::Injected",
                self.limit.name()
            ),
        )
    }

    #[cold]
    fn missing_time(&self) -> StoreError {
        StoreError::new(
            StoreErrorKind::InvalidRequest,
            format!(
                "the request carries no time, but limit `{}` was opened with injected time: set `at`",
                self.limit.name()
            ),
        )
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("limit", &self.limit.name())
            .field("injected", &self.is_injected())
            .finish_non_exhaustive()
    }
}

impl Seat {
    pub(crate) fn table_id(&self) -> u64 {
        match self {
            Self::Bucket(seat) => seat.table.id(),
            Self::Counter(seat) => seat.table.id(),
            Self::Log(seat) => seat.table.id(),
            Self::WarmUp(seat) => seat.table.id(),
            Self::Window(seat) => seat.table.id(),
        }
    }
}

impl<C: Cell> SeatOf<C> {
    pub(crate) fn new(table: &Arc<Table<C>>, rule: &C::Rule, tag: Tag, own_cost: Cost) -> Self {
        table.join(rule);
        Self { table: Arc::clone(table), rule: rule.clone(), tag, own_cost: own_cost.get() }
    }
}

impl<C: Cell> Drop for SeatOf<C> {
    fn drop(&mut self) {
        self.table.leave(&self.rule);
    }
}

/// A handle's share in its run of injected time, if it is of one.
struct Lease(Arc<Registry>, TimeSource);

impl Drop for Lease {
    fn drop(&mut self) {
        if self.1 != TimeSource::Store {
            self.0.leave(&self.1);
        }
    }
}
