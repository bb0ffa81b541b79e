//! One limit in a store.

mod builder;
mod give_back;
mod hold;
mod lists;
mod namesake;
mod permit;
mod queue;
mod reservation;
mod settle;
mod turn;
mod untold;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::for_stores::{DecisionForStores as _, Post, Posted};
use sluicegate_core::{
    Answer, Decision, Error, HoldId, Limit, LimitError, OpenOptions, OpenedLimit as _, Operation,
    Policy, Receipt, Request, RequestError, RequestErrorKind, SharedStore, SliceCounts, Span,
    Store, StoreError, Timestamp,
};
use smallvec::SmallVec;

use crate::ask::Ask;
use crate::numbers_cache::NumbersCache;
use crate::observe::Observers;
use crate::on_store_failure::OnStoreFailure;
use crate::random_id::random_id;
use crate::trace::{answered_now, traced};

pub use builder::LimiterBuilder;
use namesake::Namesake;
pub(crate) use queue::{Waited, no_pass};
pub use reservation::Reservation;
pub(crate) use turn::{Turn, end_of, unsupported};
use untold::Untold;

/// One limit in a store, which decides requests about keys.
///
/// Each method builds a [`Question`](crate::question::Question), which an ending sends: `.await`, `now()` or
/// `blocking()`. A denial is not an error of [`check`](Limiter::check), so look at [`Decision::is_allowed`]. It is an
/// error of [`enforce`](Limiter::enforce). There are two kinds of errors:
///
/// - [`Error::Request`]: the request is malformed, or the limit doesn't support it. Always an error.
/// - [`Error::Store`]: the store failed, and [`LimiterBuilder::on_store_failure`] doesn't allow or deny instead. A call
///   whose outcome is unknown (it timed out after it was sent) is never sent again; it counts as charged. A request
///   with an [id](crate::question::Question::id) can be repeated, and [`layers::Retry`](crate::layers::Retry) does so
///   automatically.
///
/// Checks that the store answers immediately allocate nothing. Cloning is cheap, and clones share everything. Several
/// limiters share a store by cloning it.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{Limiter, MemoryStore};
/// use sluicegate::testing::ManualClock;
/// use std::sync::Arc;
///
/// let clock = Arc::new(ManualClock::default());
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["token_bucket 1/s burst 2"])?);
/// assert!(limiter.check("alice").now()?.is_allowed());
/// assert!(limiter.check("alice").now()?.is_allowed());
/// assert!(limiter.check("alice").now()?.is_denied());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check("alice").now()?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter<S: Store = SharedStore> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Store> {
    opened: S::Opened,
    store: Arc<S>,
    options: OpenOptions,
    on_store_failure: OnStoreFailure,
    observers: Observers,
    /// The limit with other numbers.
    by_numbers: NumbersCache<Limiter<S>>,
    /// Only limiters that a program builds have it.
    _namesake: Option<Namesake>,
}

impl<S: Store> Limiter<S> {
    /// Makes a limiter that returns an error if the store fails.
    pub fn new(store: S, limit: Limit) -> Self {
        Self::builder(store, limit).build()
    }

    /// Returns a builder that configures the limiter.
    pub fn builder(store: S, limit: Limit) -> LimiterBuilder<S> {
        LimiterBuilder::new(store, limit)
    }

    /// Returns the limit. Its policies are in the order of [`Decision::policies`].
    #[must_use]
    pub fn limit(&self) -> &Limit {
        self.inner.opened.limit()
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.inner.store
    }

    /// Returns the answer that the limiter gives when the store fails.
    #[must_use]
    pub(crate) fn on_store_failure(&self) -> OnStoreFailure {
        self.inner.on_store_failure
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.inner.observers
    }

    /// Returns the limiter's own deadline; `None` for the store's.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.inner.options.deadline
    }

    /// Returns this limit with other policies. Equal policies give one limiter.
    pub(crate) fn with_policies(&self, policies: Vec<Policy>) -> Result<Self, LimitError> {
        self.inner.by_numbers.get_or_open(policies, |policies| {
            let limit = self.limit().with_policies(policies)?;
            let Inner { store, options, on_store_failure, observers, .. } = &*self.inner;
            Ok(Self {
                inner: Arc::new(Inner {
                    opened: store.open(limit, options.clone()),
                    store: Arc::clone(store),
                    options: options.clone(),
                    on_store_failure: *on_store_failure,
                    observers: observers.clone(),
                    by_numbers: NumbersCache::default(),
                    _namesake: None,
                }),
            })
        })
    }

    pub(crate) async fn cancel_at(
        &self,
        receipt: &Receipt,
        at: Option<Timestamp>,
    ) -> Result<bool, Error> {
        let since = self.inner.observers.start();
        let request = Request::cancel(receipt).at(at);
        let answer = self.inner.opened.ask(request).wait().await;
        if let Ok(decision) = &answer {
            self.note_answer(decision);
        }
        self.tell_settled(&request, since, &answer);
        answer.map(|decision| decision.is_allowed())
    }

    /// Cancels a reservation if the store can answer immediately. Otherwise returns `None` and sends nothing.
    pub(crate) fn cancel_at_once(
        &self,
        receipt: &Receipt,
        at: Option<Timestamp>,
    ) -> Option<Result<bool, Error>> {
        let since = self.inner.observers.start();
        let request = Request::cancel(receipt).at(at);
        let answer = self.inner.opened.ask_now(request)?;
        self.tell_settled(&request, since, &answer);
        Some(answer.map(|decision| decision.is_allowed()))
    }

    /// Returns the slices of a ring.
    pub(crate) async fn slices(&self, key: &[u8]) -> Result<SliceCounts, Error> {
        let answer = self.inner.opened.ask(Request::slices(key)).wait().await;
        self.note(&answer);
        answer?.take_slices().ok_or_else(|| {
            RequestError::new(RequestErrorKind::Unsupported, "the limit is not a ring").into()
        })
    }

    /// Sends a request that observers don't see, and returns the store's answer.
    pub(crate) async fn ask_unseen(&self, request: Request<'_>) -> Result<Decision, Error> {
        let answer = self.inner.opened.ask(request).wait().await;
        self.note(&answer);
        answer
    }

    /// Puts an entry on the board of a key, and returns all entries.
    pub(crate) async fn exchange(
        &self,
        key: &[u8],
        post: Option<Post<'_>>,
    ) -> Result<Vec<Posted>, Error> {
        self.inner.opened.exchange(key, post).await
    }

    /// Sends a request, and awaits the store if necessary.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an async fn stores its arguments twice"
    )]
    pub(crate) fn ask(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        async move {
            let untold = self.ask_untold(operation, ask, Span::ZERO).await?;
            Ok(self.tell(operation, ask, untold))
        }
    }

    /// Sends a request with this much time for the store to connect, and returns the answer before observers see it.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an async fn stores its arguments twice"
    )]
    fn ask_untold(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        time: Span,
    ) -> impl Future<Output = Result<Untold, Error>> + Send {
        async move {
            let (mut each, also) = (SmallVec::new(), ask.also());
            let id = place_id(operation);
            let request = self.request(operation, ask, &also, &mut each)?.connecting_within(time);
            let request = in_line(request, id.as_ref());
            let since = self.inner.observers.start();
            // Called outside of the future that waits, which would be larger by the size of a decision.
            let later = match self.inner.opened.ask(request) {
                Answer::Now(answer) => {
                    answered_now(self.limit(), operation, &answer);
                    return self.untold(operation, ask, since, answer);
                }
                Answer::Later(later) => later,
            };
            let answer = traced(self.limit(), operation, later).await;
            if let Ok(decision) = &answer {
                self.note_answer(decision);
            }
            self.untold(operation, ask, since, answer)
        }
    }

    /// Returns the answer if the store has it immediately. Otherwise returns `None` and sends nothing.
    #[inline]
    pub(crate) fn ask_at_once(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
    ) -> Option<Result<Decision, Error>> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let id = place_id(operation);
        let request = match self.request(operation, ask, &also, &mut each) {
            Ok(request) => in_line(request, id.as_ref()),
            Err(error) => return Some(Err(error)),
        };
        let since = self.inner.observers.start();
        // Changed in place: moving a decision takes as long as some of its arithmetic.
        let mut answer = self.inner.opened.ask_now(request);
        if let Some(answer) = &answer {
            answered_now(self.limit(), operation, answer);
        }
        let is_rare = match &answer {
            Some(Ok(decision)) => decision.is_store_full(),
            Some(Err(_)) => true,
            None => false,
        };
        if since.is_some() || is_rare {
            answer = answer.map(|answer| self.answer(operation, ask, since, answer));
        }
        answer
    }

    #[inline]
    fn request<'r>(
        &self,
        operation: Operation<'r>,
        ask: &'r Ask<'_>,
        also: &'r [&'r [u8]],
        each: &'r mut SmallVec<[u64; 4]>,
    ) -> Result<Request<'r>, Error> {
        let costs = ask.costs(self.limit(), each)?;
        let request = Request::new(operation, ask.key()).also(also).costs(costs).at(ask.time());
        let request = match ask.once()? {
            Some(once) => request.idempotent(once),
            None => request,
        };
        Ok(match operation {
            Operation::Reserve { .. } => request.with_receipt(),
            _ => request,
        })
    }

    /// Notes whether the store answered a call that doesn't end in [`Self::answer`].
    fn note(&self, answer: &Result<Decision, Error>) {
        match answer {
            Ok(decision) => self.note_answer(decision),
            Err(Error::Store(error)) => self.note_failure(error),
            Err(_) => {}
        }
    }

    fn note_answer(&self, decision: &Decision) {
        self.inner.observers.store_health().answered(&|| self.inner.store.id(), decision);
    }

    #[cold]
    fn note_failure(&self, error: &StoreError) {
        let Inner { store, on_store_failure, observers, .. } = &*self.inner;
        let limit = self.limit().name();
        observers.store_health().failed(&|| store.id(), limit, *on_store_failure, error);
    }
}

impl<S: Store> Clone for Limiter<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Store> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("limit", self.limit())
            .field("on_store_failure", &self.inner.on_store_failure)
            .finish_non_exhaustive()
    }
}

/// Returns the id of a reservation's queue position. Without random bytes the reservation has none.
#[inline]
fn place_id(operation: Operation<'_>) -> Option<HoldId> {
    if let Operation::Reserve { .. } = operation { random_id().ok() } else { None }
}

/// Returns the request with a queue position.
#[inline]
const fn in_line<'r>(request: Request<'r>, id: Option<&'r HoldId>) -> Request<'r> {
    match id {
        Some(id) => request.in_line_as(id),
        None => request,
    }
}

#[cfg(test)]
mod tests;
