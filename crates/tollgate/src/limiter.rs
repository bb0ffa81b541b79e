//! One limit in a store: what a call site holds.

mod acquire;
mod builder;
mod reservation;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Decision, EmbeddedStore, Limit, Operation, Request, Span, Store, StoreError};

use crate::ask::Ask;
use crate::config::OnStoreFailure;

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
/// use tollgate::{Limiter, ManualClock, MemoryStore, Span};
/// use std::sync::Arc;
///
/// let clock = Arc::new(ManualClock::default());
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::new(store, tollgate::limit("login", ["token_bucket 1/s burst 2"])?);
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
        self.question(Operation::Check, ask.into())
    }

    /// Answers like [`Limiter::check`], and charges and writes nothing.
    ///
    /// # Errors
    /// Like [`Limiter::check`].
    pub fn peek<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.question(Operation::Peek, ask.into())
    }

    /// [`Limiter::check`] at once, if the store can answer without waiting for anything; `None`
    /// when it can't, and then nothing was asked.
    pub fn check_at_once<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> Option<Result<Decision, StoreError>> {
        let ask = ask.into();
        let (mut each, also) = (SmallVec::new(), ask.also());
        let answer = match self.request(Operation::Check, &ask, &also, &mut each) {
            Ok(request) => self.store.decide_at_once(&self.handle, request)?,
            Err(error) => Err(error),
        };
        Some(self.or_fallback(answer))
    }

    /// Takes the cost now and says when to act ([`Decision::wait`]); denied when that would be
    /// later than `within` from now. Only for limits whose policies are all of the bucket family
    /// ([`Limit::can_reserve`]). The reservation can be [cancelled](Reservation::cancel).
    ///
    /// # Errors
    /// Like [`Limiter::check`]; [`StoreErrorKind::Unsupported`](tollgate_core::StoreErrorKind) for
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
        let answer = self.store.reserve(&self.handle, request).await;
        let (answer, receipt) = match answer {
            Ok((decision, receipt)) => (Ok(decision), receipt),
            Err(error) => (Err(error), None),
        };
        Ok(Reservation::new(self.or_fallback(answer)?, &self.store, &self.handle, receipt))
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
        self.question(Operation::TakeUpTo, ask.into())
    }

    /// Takes the cost by force, into debt: what was used is used.
    ///
    /// # Errors
    /// For a malformed question, and whenever the store failed: there is nothing to allow or deny.
    pub fn charge<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.order(Operation::Charge, ask.into())
    }

    /// Gives the cost back, to no better than a fresh key's state.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn refund<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.order(Operation::Refund, ask.into())
    }

    /// Forgets the key under this limit.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn reset<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send + 'a {
        self.order(Operation::Reset, ask.into())
    }

    /// Something that can be answered without the store.
    async fn question(&self, operation: Operation, ask: Ask<'_>) -> Result<Decision, StoreError> {
        let answer = self.order(operation, ask).await;
        self.or_fallback(answer)
    }

    /// Something that only the store can do.
    async fn order(&self, operation: Operation, ask: Ask<'_>) -> Result<Decision, StoreError> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, &ask, &also, &mut each)?;
        self.store.decide(&self.handle, request).await
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

    #[inline]
    fn or_fallback(&self, answer: Result<Decision, StoreError>) -> Result<Decision, StoreError> {
        match (answer, self.on_store_failure) {
            (Err(error), OnStoreFailure::Allow) if error.is_store_failure() => {
                Ok(Decision::fallback(true))
            }
            (Err(error), OnStoreFailure::Deny) if error.is_store_failure() => {
                Ok(Decision::fallback(false))
            }
            (answer, _) => answer,
        }
    }
}

impl<S: EmbeddedStore> Limiter<S> {
    /// [`Limiter::check`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::check`].
    #[inline]
    pub fn try_check<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        let answer = self.order_now(Operation::Check, &ask.into());
        self.or_fallback(answer)
    }

    /// [`Limiter::peek`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::peek`].
    pub fn try_peek<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        let answer = self.order_now(Operation::Peek, &ask.into());
        self.or_fallback(answer)
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
        let answer = self.order_now(Operation::Reserve { within }, &ask.into());
        self.or_fallback(answer)
    }

    /// [`Limiter::take_up_to`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::take_up_to`].
    pub fn try_take_up_to<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        let answer = self.order_now(Operation::TakeUpTo, &ask.into());
        self.or_fallback(answer)
    }

    /// [`Limiter::charge`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn try_charge<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.order_now(Operation::Charge, &ask.into())
    }

    /// [`Limiter::refund`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::refund`].
    pub fn try_refund<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.order_now(Operation::Refund, &ask.into())
    }

    /// [`Limiter::reset`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::reset`].
    pub fn try_reset<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, StoreError> {
        self.order_now(Operation::Reset, &ask.into())
    }

    #[inline]
    fn order_now(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, StoreError> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, ask, &also, &mut each)?;
        self.store.decide_now(&self.handle, request)
    }
}

impl<S: Store> Clone for Limiter<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            handle: Arc::clone(&self.handle),
            limit: Arc::clone(&self.limit),
            on_store_failure: self.on_store_failure,
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
