//! One limit in a store: what a call site holds.

mod acquire;
mod builder;
mod now;
mod reservation;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Answer, Decision, Error, Limit, OpenOptions, OpenedLimit as _, Operation, Receipt, Request,
    RequestError, RequestErrorKind, SharedStore, SliceCounts, Span, Store, Timestamp,
};
use smallvec::SmallVec;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::ask::Ask;
use crate::config::OnStoreFailure;
use crate::observe::{Answered, Observers};

pub(crate) use acquire::end_of;
pub use builder::LimiterBuilder;
pub(crate) use now::would_block;
pub use reservation::Reservation;

/// One limit in a store: asks it about keys.
///
/// A denial is not an error: [`Decision::is_allowed`] tells. Errors are of two kinds:
///
/// - [`Error::Request`]: the question is malformed, or the limit can't answer it. Always an error.
/// - [`Error::Store`]: the store failed. An error, or what [`LimiterBuilder::on_store_failure`]
///   says. A call whose outcome is unknown (it timed out after it was sent) is never sent again;
///   it counts as charged.
///
/// Every verb has two forms: one to `await`, for any store, and one that answers `_now`, for stores
/// that wait for nothing. The simple forms allocate nothing. Cloning is cheap, and clones share
/// everything.
///
/// ```
/// use sluicegate::{Limiter, ManualClock, MemoryStore, Span};
/// use std::sync::Arc;
///
/// let clock = Arc::new(ManualClock::default());
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::new(store, sluicegate::limit("login", ["token_bucket 1/s burst 2"])?);
/// assert!(limiter.check_now("alice")?.is_allowed());
/// assert!(limiter.check_now("alice")?.is_allowed());
/// assert!(limiter.check_now("alice")?.is_denied());
/// clock.advance(Span::SECOND);
/// assert!(limiter.check_now("alice")?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Several limiters share a store by clones of it.
pub struct Limiter<S: Store = SharedStore> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Store> {
    opened: S::Opened,
    store: Arc<S>,
    options: OpenOptions,
    on_store_failure: OnStoreFailure,
    observers: Observers,
}

impl<S: Store> Limiter<S> {
    /// A limiter for which a failing store is an error.
    pub fn new(store: S, limit: Limit) -> Self {
        Self::builder(store, limit).build()
    }

    /// Like [`Limiter::new`], with more to say.
    pub fn builder(store: S, limit: Limit) -> LimiterBuilder<S> {
        LimiterBuilder::new(store, limit)
    }

    /// The limit, whose policies are in the order of [`Decision::policies`].
    #[must_use]
    pub fn limit(&self) -> &Limit {
        self.inner.opened.limit()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.inner.store
    }

    /// What is answered when the store fails.
    #[must_use]
    pub fn on_store_failure(&self) -> OnStoreFailure {
        self.inner.on_store_failure
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.inner.observers
    }

    pub(crate) fn options(&self) -> &OpenOptions {
        &self.inner.options
    }

    /// Takes the cost, or is denied.
    ///
    /// A limit with a shaper may allow with a wait: [`Decision::wait`] tells when to act.
    ///
    /// # Errors
    /// The future ends with an error for a malformed question, and when the store failed and the
    /// limiter has nothing to say then.
    pub fn check<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        self.ask_owned(Operation::Check, ask.into())
    }

    /// Answers like [`Limiter::check`], and charges and writes nothing.
    ///
    /// # Errors
    /// Like [`Limiter::check`].
    pub fn peek<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        self.ask_owned(Operation::Peek, ask.into())
    }

    /// Takes the cost now and says when to act ([`Decision::wait`]); denied when that would be
    /// later than `within` from now. Only for limits whose policies are all of the bucket family
    /// ([`Limit::can_reserve`]). The reservation can be [cancelled](Reservation::cancel).
    ///
    /// # Errors
    /// Like [`Limiter::check`]; [`RequestErrorKind::Unsupported`] for a limit that can't be
    /// reserved.
    pub fn reserve<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
    ) -> impl Future<Output = Result<Reservation<S>, Error>> + Send + 'a {
        let (ask, within) = (ask.into(), within.into());
        async move { self.book(&ask, within).await }
    }

    /// Takes as much as every policy admits, up to the cost: [`Decision::granted`] tells how much.
    ///
    /// When the store failed and the limiter allows everything then, nobody counted:
    /// [`Decision::source`] is the fallback and `granted` is 0; take what was asked for.
    ///
    /// # Errors
    /// Like [`Limiter::check`].
    pub fn take_up_to<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        self.ask_owned(Operation::TakeUpTo, ask.into())
    }

    /// Takes the cost by force, into debt: what was used is used.
    ///
    /// # Errors
    /// For a malformed question, and whenever the store failed: there is nothing to allow or deny.
    pub fn charge<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        self.ask_owned(Operation::Charge, ask.into())
    }

    /// Gives the cost back, to no better than a fresh key's state.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn refund<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        self.ask_owned(Operation::Refund, ask.into())
    }

    /// Forgets the key under this limit.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn reset<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        self.ask_owned(Operation::Reset, ask.into())
    }

    /// Gives the units of a reservation back by its receipt, which another process may have
    /// handed over, if nothing was charged to the key after them; tells whether that was so.
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`] for a receipt of another limit; and when the store fails: then
    /// the units count as lost.
    pub async fn cancel(&self, receipt: &Receipt) -> Result<bool, Error> {
        self.cancel_at(receipt, None).await
    }

    async fn cancel_at(&self, receipt: &Receipt, at: Option<Timestamp>) -> Result<bool, Error> {
        let answer = self.inner.opened.ask(Request::cancel(receipt).at(at)).wait().await;
        answer.map(|decision| decision.is_allowed())
    }

    /// The slices of a ring.
    pub(crate) async fn slices(&self, key: &[u8]) -> Result<SliceCounts, Error> {
        let mut answer = self.inner.opened.ask(Request::slices(key)).wait().await?;
        answer.take_slices().ok_or_else(|| {
            RequestError::new(RequestErrorKind::Unsupported, "the limit is no ring").into()
        })
    }

    #[expect(clippy::manual_async_fn, reason = "an async fn keeps its arguments twice")]
    fn ask_owned(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        async move { self.ask(operation, &ask).await }
    }

    /// Asks, and waits if the store has to be waited for.
    pub(crate) async fn ask(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, Error> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, ask, &also, &mut each)?;
        let since = self.inner.observers.start();
        // Apart from the wait: what holds room for a decision isn't held while nothing is there.
        let later = match self.inner.opened.ask(request) {
            Answer::Now(answer) => return self.answer(operation, ask, since, answer),
            Answer::Later(later) => later,
        };
        let answer = later.instrument(self.span(operation)).await;
        self.answer(operation, ask, since, answer)
    }

    pub(crate) async fn book(&self, ask: &Ask<'_>, within: Span) -> Result<Reservation<S>, Error> {
        let decision = self.ask(Operation::Reserve { within }, ask).await?;
        Ok(Reservation::new(decision, self, ask.time()))
    }

    /// The answer, if the store has one at once; otherwise nothing was asked.
    #[inline]
    pub(crate) fn ask_at_once(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
    ) -> Option<Result<Decision, Error>> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = match self.request(operation, ask, &also, &mut each) {
            Ok(request) => request,
            Err(error) => return Some(Err(error)),
        };
        let since = self.inner.observers.start();
        let answer = self.inner.opened.ask(request).now()?;
        if since.is_none() && answer.is_ok() {
            return Some(answer);
        }
        Some(self.answer(operation, ask, since, answer))
    }

    /// A span around what waits for a store.
    fn span(&self, operation: Operation) -> tracing::Span {
        tracing::debug_span!("sluicegate", limit = self.limit().name().as_str(), ?operation)
    }

    #[inline]
    fn request<'r, 'k: 'r>(
        &self,
        operation: Operation,
        ask: &Ask<'k>,
        also: &'r [&'k [u8]],
        each: &'r mut SmallVec<[u64; 4]>,
    ) -> Result<Request<'r>, Error> {
        let costs = ask.costs(self.limit(), each)?;
        let request = Request::new(operation, ask.key()).also(also).costs(costs).at(ask.time());
        Ok(match operation {
            Operation::Reserve { .. } => request.with_receipt(),
            _ => request,
        })
    }

    /// What the caller is told, and whoever observes: the store's answer, or the limiter's own for
    /// a question that the store failed to answer.
    fn answer(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
        since: Option<Instant>,
        answer: Result<Decision, Error>,
    ) -> Result<Decision, Error> {
        let failure = answer.as_ref().err().and_then(Error::as_store).cloned();
        // Nothing was charged, given back or forgotten: saying otherwise would be a lie.
        let is_question =
            !matches!(operation, Operation::Charge | Operation::Refund | Operation::Reset);
        let fallback = |allowed| Ok(Decision::fallback(self.limit(), allowed));
        let answer = match (self.inner.on_store_failure, &failure) {
            (OnStoreFailure::Allow, Some(_)) if is_question => fallback(true),
            (OnStoreFailure::Deny, Some(_)) if is_question => fallback(false),
            _ => answer,
        };
        if let Some(since) = since {
            let answered = Answered {
                limit: self.limit(),
                key: ask.key(),
                operation,
                outcome: answer.as_ref(),
                failure: failure.as_ref(),
                took: Duration::ZERO,
            };
            self.inner.observers.tell(since, &answered);
        }
        answer
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

#[cfg(test)]
mod tests;
