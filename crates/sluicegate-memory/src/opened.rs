//! An opened limit, prepared so that a decision looks up nothing by name.

use std::fmt;
use std::sync::OnceLock;

use sluicegate_core::for_stores::Book;
use sluicegate_core::kernel::Now;
use sluicegate_core::kernel::permits::Permits;
use sluicegate_core::{
    Cost, DeniedCharge, Enforcement, Limit, LimitName, Member, OpenOptions, Operation, Request,
    RequestError, RequestErrorKind, TimeSource, Timestamp,
};

use crate::budget::Load;
use crate::cell::{BookCell, BucketCell, PlainCell};
use crate::fingerprint::Fingerprint;
use crate::kernels::AnyPolicy;
use crate::latest_pause::LatestPause;
use crate::opened_policy::OpenedPolicy;
use crate::registry::Registry;
use crate::store::MemoryStore;

/// A limit that a [`MemoryStore`] has opened.
///
/// Handles opened under one limit name share their states. States under injected time are dropped
/// with the last opened limit of their run.
pub struct MemoryLimit {
    limit: Limit,
    /// One for each policy, in the limit's order.
    policies: Box<[AnyPolicy]>,
    /// The indices of the policies in the order in which their shards are locked.
    lock_order: Box<[usize]>,
    /// For each part, the table of held records, request ids, bans and pauses. Opened by the first request
    /// that needs them.
    books: OnceLock<Box<[OpenedPolicy<BookCell>]>>,
    /// For each part, the end of its latest pause.
    paused: Box<[LatestPause]>,
    /// Whether the limit may take the fast paths: store time, and only plain policies.
    is_straight: bool,
    /// Whether the caps could hold one key of each limit when this one was opened.
    fits: bool,
    /// `None` under injected time.
    max_clock_back: Option<u64>,
    store: MemoryStore,
    time: TimeSource,
}

impl MemoryLimit {
    pub(crate) fn new(store: MemoryStore, limit: Limit, options: OpenOptions) -> Self {
        let time = options.time;
        let policies = AnyPolicy::open_all(store.registry(), &limit, &time);
        let mut lock_order: Box<[usize]> = (0..policies.len()).collect();
        lock_order.sort_by_key(|&index| policies[index].table_id());
        let part_of = |part| limit.members().iter().position(|member| member.part() == part);
        let paused = (0..limit.parts().len()).map(|part| match part_of(part) {
            Some(index) => policies[index].share().paused().clone(),
            None => LatestPause::default(),
        });
        let paused = paused.collect();
        let is_plain = |member: &Member| {
            member.policy().enforcement() == Enforcement::Enforced
                && member.policy().denied_charge() == DeniedCharge::Free
        };
        let injected = !matches!(time, TimeSource::Store);
        let has_books = limit.has_bans() || limit.has_returns();
        let fits = store.registry().has_room_for_all();
        let is_straight = fits && !injected && !has_books && limit.members().iter().all(is_plain);
        Self {
            limit: limit.keep(),
            policies,
            lock_order,
            books: OnceLock::new(),
            paused,
            is_straight,
            fits,
            max_clock_back: (!injected).then_some(store.registry().max_clock_back()),
            store,
            time,
        }
    }

    /// Returns the time to decide by: the given time, or the store's clock.
    ///
    /// The caller holds the locks of the request's subjects, so decisions about a key are made in
    /// the order of their clock readings. Otherwise a thread could read the clock before it is set
    /// back and decide later. The key would then count the step as elapsed time.
    #[inline]
    pub(crate) fn now(&self, given: Option<Timestamp>) -> Now {
        let time = given.unwrap_or_else(|| self.store().now());
        Now { micros: time.as_micros(), max_clock_back: self.max_clock_back }
    }

    /// Returns whether a subject of the limit may be paused at `now`. Then the request needs its
    /// subjects' books.
    #[inline]
    pub(crate) fn may_be_paused(&self, now: Now) -> bool {
        self.paused.iter().any(|paused| paused.may_last(now.micros))
    }

    /// Returns the end of the latest pause of each part.
    pub(crate) const fn paused(&self) -> &[LatestPause] {
        &self.paused
    }

    pub(crate) const fn limit(&self) -> &Limit {
        &self.limit
    }

    pub(crate) const fn policies(&self) -> &[AnyPolicy] {
        &self.policies
    }

    pub(crate) const fn lock_order(&self) -> &[usize] {
        &self.lock_order
    }

    /// Returns the table of held records for each part.
    pub(crate) fn books(&self) -> &[OpenedPolicy<BookCell>] {
        self.books.get_or_init(|| {
            let mut tables = self.registry().reopen(self.time());
            let parts = self.limit.parts().iter();
            let mut open = |part: &LimitName| {
                let first = Load::NONE;
                OpenedPolicy::open(
                    &mut tables,
                    part.as_str(),
                    Book::IDENTITY,
                    &(),
                    Cost::ONE,
                    first,
                )
            };
            parts.map(&mut open).collect()
        })
    }

    /// Returns the tables that hold states of a request's subjects, with the subjects'
    /// fingerprints.
    pub(crate) fn states_of(&self, subjects: &[Fingerprint]) -> Vec<(u64, Fingerprint)> {
        let members = self.limit.members().iter().zip(&self.policies);
        let states = members.map(|(member, policy)| (policy.table_id(), subjects[member.part()]));
        let books = self.books.get().into_iter().flatten().zip(subjects);
        states.chain(books.map(|(book, subject)| (book.table.id(), *subject))).collect()
    }

    /// Checks that the caps can hold one key of each limit.
    pub(crate) fn check_fit(&self) -> Result<(), RequestError> {
        if self.fits || self.registry().has_room_for_all() {
            return Ok(());
        }
        let (needed, most) = (self.registry().budget().needed(), self.registry().budget().most());
        Err(RequestError::new(
            RequestErrorKind::StoreTooSmall,
            format!(
                "limit `{}` doesn't fit into the embedded store: one key per limit needs {} keys and {} bytes, `max_keys` is {}, `max_bytes` is {}. Nothing was charged. Raise them, or open fewer limits",
                self.limit.name(),
                needed.keys,
                needed.bytes,
                most.keys,
                most.bytes
            ),
        ))
    }

    pub(crate) const fn store(&self) -> &MemoryStore {
        &self.store
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.store().registry()
    }

    pub(crate) const fn time(&self) -> &TimeSource {
        &self.time
    }

    /// Returns the only policy, if it is a plain bucket.
    #[inline]
    pub(crate) fn straight_bucket(&self) -> Option<&OpenedPolicy<BucketCell>> {
        match &*self.policies {
            [AnyPolicy::Bucket(policy)] if self.is_straight => Some(policy),
            _ => None,
        }
    }

    /// Returns the only policy, if it is a plain policy of permits without a queue.
    pub(crate) fn straight_permits(&self) -> Option<&OpenedPolicy<PlainCell<Permits>>> {
        match &*self.policies {
            [AnyPolicy::Permits(policy)] if self.is_straight && policy.rule.queue() == 0 => {
                Some(policy)
            }
            _ => None,
        }
    }

    /// Returns whether requests bring their own time.
    #[inline]
    pub(crate) const fn is_injected(&self) -> bool {
        self.max_clock_back.is_none()
    }
}

/// Returns the cost of a plain check, which takes the fast path.
#[inline(always)]
pub(crate) fn straight_cost(
    request: &Request<'_>,
    policy: &OpenedPolicy<BucketCell>,
) -> Option<Cost> {
    let is_plain =
        request.holds().is_none() && request.idempotency().is_none() && request.leases().is_none();
    if !request.further_subjects().is_empty() || !is_plain || request.time().is_some() {
        return None;
    }
    match request.operation() {
        Operation::Check => policy.plain_cost(request.cost()),
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

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let books = self.books.get().into_iter().flatten();
        let left = self.policies.iter().filter_map(AnyPolicy::leave);
        self.registry().close(&self.time, left.chain(books.filter_map(OpenedPolicy::leave)));
    }
}
