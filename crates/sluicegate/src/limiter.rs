//! One limit in a store: what a call site holds.

mod acquire;
mod builder;
mod reservation;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Decision, EmbeddedStore, Limit, Operation, Request, SliceCounts, Span, Store, StoreError,
};
use smallvec::SmallVec;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::ask::Ask;
use crate::config::OnStoreFailure;
use crate::observe::{Answered, Observers};

pub use builder::LimiterBuilder;
pub use reservation::Reservation;

/// One limit in a store: asks it about keys.
///
/// A denial is not an error: [`Decision::is_allowed`] tells. Errors are of two kinds:
///
/// - The question is malformed or the limit can't answer it
///   ([`StoreError::is_store_failure`] is false): always an error.
/// - The store failed: an error, or what [`LimiterBuilder::on_store_failure`] says. A call whose
///   outcome is unknown (it timed out after it was sent) is never sent again; it counts as
///   charged.
///
/// Cloning is cheap, and clones share the store. The simple form allocates nothing.
///
/// ```
/// use sluicegate::{Limiter, ManualClock, MemoryStore, Span};
/// use std::sync::Arc;
///
/// let clock = Arc::new(ManualClock::default());
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::new(store, sluicegate::limit("login", ["token_bucket 1/s burst 2"])?);
/// assert!(limiter.try_check("alice")?.is_allowed());
/// assert!(limiter.try_check("alice")?.is_allowed());
/// assert!(limiter.try_check("alice")?.is_denied());
/// clock.advance(Span::SECOND);
/// assert!(limiter.try_check("alice")?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter<S: Store> {
    store: Arc<S>,
    handle: Arc<S::Handle>,
    limit: Arc<Limit>,
    on_store_failure: OnStoreFailure,
    observers: Observers,
}

impl<S: Store> Limiter<S> {
    /// A limiter that has a store of its own; a failing store is an error.
    pub fn new(store: S, limit: Limit) -> Self {
        Self::builder(store, limit).build()
    }

    /// Like [`Limiter::new`], with more to say.
    pub fn builder(store: S, limit: Limit) -> LimiterBuilder<S> {
        LimiterBuilder::new(Arc::new(store), limit)
    }

    /// For several limiters that share a store.
    pub fn shared(store: Arc<S>, limit: Limit) -> LimiterBuilder<S> {
        LimiterBuilder::new(store, limit)
    }

    /// The limit, whose policies are in the order of [`Decision::policies`].
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The limit, to be kept with a decision.
    #[inline]
    pub(crate) const fn shared_limit(&self) -> &Arc<Limit> {
        &self.limit
    }

    pub(crate) const fn observers(&self) -> &Observers {
        &self.observers
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// What is answered when the store fails.
    #[must_use]
    pub const fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure
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
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.ask(Operation::Check, ask.into())
    }

    /// Answers like [`Limiter::check`], and charges and writes nothing.
    ///
    /// # Errors
    /// Like [`Limiter::check`].
    pub fn peek<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.ask(Operation::Peek, ask.into())
    }

    /// [`Limiter::check`] at once, if the store can answer without waiting for anything; `None`
    /// when it can't, and then nothing was asked.
    pub fn check_at_once<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> Option<Result<Decision, StoreError>> {
        self.ask_at_once(Operation::Check, &ask.into())
    }

    #[inline]
    pub(crate) fn ask_at_once(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
    ) -> Option<Result<Decision, StoreError>> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = match self.request(operation, ask, &also, &mut each) {
            Ok(request) => request,
            Err(error) => return Some(Err(error)),
        };
        let since = self.observers.start();
        if self.hands_on(since) {
            return self.store.decide_at_once(&self.handle, request);
        }
        let answer = self.store.decide_at_once(&self.handle, request)?;
        Some(self.answer(request, since, answer))
    }

    /// Takes the cost now and says when to act ([`Decision::wait`]); denied when that would be
    /// later than `within` from now. Only for limits whose policies are all of the bucket family
    /// ([`Limit::can_reserve`]). The reservation can be [cancelled](Reservation::cancel).
    ///
    /// # Errors
    /// Like [`Limiter::check`]; [`StoreErrorKind::Unsupported`](sluicegate_core::StoreErrorKind) for
    /// a limit that can't be reserved.
    pub fn reserve<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        within: Span,
    ) -> impl Future<Output = Result<Reservation<S>, StoreError>> + Send + 'a {
        self.book(ask.into(), within)
    }

    async fn book(&self, ask: Ask<'_>, within: Span) -> Result<Reservation<S>, StoreError> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(Operation::Reserve { within }, &ask, &also, &mut each)?;
        let (span, since) = (self.span(request.operation), self.observers.start());
        let answer = self.store.reserve(&self.handle, request).instrument(span).await;
        let (answer, receipt) = match answer {
            Ok((decision, receipt)) => (Ok(decision), receipt),
            Err(error) => (Err(error), None),
        };
        let decision = self.answer(request, since, answer)?;
        Ok(Reservation::new(decision, &self.store, &self.handle, receipt))
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
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.ask(Operation::TakeUpTo, ask.into())
    }

    /// Takes the cost by force, into debt: what was used is used.
    ///
    /// # Errors
    /// For a malformed question, and whenever the store failed: there is nothing to allow or deny.
    pub fn charge<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.ask(Operation::Charge, ask.into())
    }

    /// Gives the cost back, to no better than a fresh key's state.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn refund<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.ask(Operation::Refund, ask.into())
    }

    /// Forgets the key under this limit.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn reset<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.ask(Operation::Reset, ask.into())
    }

    /// The slices of a ring.
    pub(crate) async fn slices(&self, ask: Ask<'_>) -> Result<SliceCounts, StoreError> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(Operation::Peek, &ask, &also, &mut each)?;
        self.store.slices(&self.handle, request).instrument(self.span(Operation::Peek)).await
    }

    pub(crate) async fn ask(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> Result<Decision, StoreError> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, &ask, &also, &mut each)?;
        let (span, since) = (self.span(operation), self.observers.start());
        let answer = self.store.decide(&self.handle, request).instrument(span).await;
        self.answer(request, since, answer)
    }

    /// A span around what waits for a store.
    fn span(&self, operation: Operation) -> tracing::Span {
        tracing::debug_span!("sluicegate", limit = self.limit.name().as_str(), ?operation)
    }

    #[inline]
    fn request<'r, 'k: 'r>(
        &self,
        operation: Operation,
        ask: &Ask<'k>,
        also: &'r [&'k [u8]],
        each: &'r mut SmallVec<[u64; 16]>,
    ) -> Result<Request<'r>, StoreError> {
        let costs = ask.costs(&self.limit, each)?;
        Ok(Request { key: ask.key(), also, operation, costs, at: ask.time() })
    }

    /// Whether the caller is told the store's answer, whatever it is, and nobody else is told. It
    /// is then handed on where it is: to move a decision, which has room for many policies, takes
    /// as long as to make it.
    #[inline]
    fn hands_on(&self, since: Option<Instant>) -> bool {
        since.is_none() && self.on_store_failure == OnStoreFailure::Error
    }

    /// What the caller is told, and whoever observes: the store's answer, or the limiter's own for
    /// a question that the store failed to answer.
    fn answer(
        &self,
        request: Request<'_>,
        since: Option<Instant>,
        answer: Result<Decision, StoreError>,
    ) -> Result<Decision, StoreError> {
        let failure = answer.as_ref().err().filter(|error| error.is_store_failure()).cloned();
        // Nothing was charged, given back or forgotten: saying otherwise would be a lie.
        let is_question =
            !matches!(request.operation, Operation::Charge | Operation::Refund | Operation::Reset);
        let answer = match (self.on_store_failure, &failure) {
            (OnStoreFailure::Allow, Some(_)) if is_question => Ok(Decision::fallback(true)),
            (OnStoreFailure::Deny, Some(_)) if is_question => Ok(Decision::fallback(false)),
            _ => answer,
        };
        if let Some(since) = since {
            let answered = Answered {
                limit: &self.limit,
                key: request.key,
                operation: request.operation,
                outcome: answer.as_ref(),
                failure: failure.as_ref(),
                took: Duration::ZERO,
            };
            self.observers.tell(since, &answered);
        }
        answer
    }
}

impl<S: EmbeddedStore> Limiter<S> {
    /// [`Limiter::check`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::check`].
    #[inline]
    pub fn try_check<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.ask_now(Operation::Check, &ask.into())
    }

    /// [`Limiter::peek`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::peek`].
    pub fn try_peek<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.ask_now(Operation::Peek, &ask.into())
    }

    /// [`Limiter::reserve`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::reserve`].
    pub fn try_reserve<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: Span,
    ) -> Result<Decision, StoreError> {
        self.ask_now(Operation::Reserve { within }, &ask.into())
    }

    /// [`Limiter::take_up_to`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::take_up_to`].
    pub fn try_take_up_to<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.ask_now(Operation::TakeUpTo, &ask.into())
    }

    /// [`Limiter::charge`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn try_charge<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.ask_now(Operation::Charge, &ask.into())
    }

    /// [`Limiter::refund`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::refund`].
    pub fn try_refund<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.ask_now(Operation::Refund, &ask.into())
    }

    /// [`Limiter::reset`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::reset`].
    pub fn try_reset<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.ask_now(Operation::Reset, &ask.into())
    }

    #[inline]
    fn ask_now(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, StoreError> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, ask, &also, &mut each)?;
        let since = self.observers.start();
        if self.hands_on(since) {
            return self.store.decide_now(&self.handle, request);
        }
        self.answer(request, since, self.store.decide_now(&self.handle, request))
    }
}

impl<S: Store> Clone for Limiter<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            handle: Arc::clone(&self.handle),
            limit: Arc::clone(&self.limit),
            on_store_failure: self.on_store_failure,
            observers: self.observers.clone(),
        }
    }
}

impl<S: Store> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("limit", &self.limit)
            .field("on_store_failure", &self.on_store_failure)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
