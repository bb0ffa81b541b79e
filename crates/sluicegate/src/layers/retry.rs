//! Repeats requests whose outcome is unknown.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{
    Answer, BoxFuture, Decision, Error, Idempotency, Limit, Measure, OpenOptions, OpenedLimit,
    Request, RequestErrorKind, RequestId, Store, StoreError, StoreId,
};

use super::layer::show_briefly;
use super::options::DEADLINE;
use super::options::RetriesUnknown;

/// A store that repeats a request, once, if its outcome is unknown: its answer was lost with the connection, or didn't
/// come in time.
///
/// Checks, charges, holds and grants of up to a number of units carry an [id](Request::idempotent), so they are charged at
/// most once. The id is random unless the request has its own. Each of the two attempts has half of the deadline.
///
/// Only requests to single limits are repeated, not to several decided together. Requests for a lease, and requests
/// that wait in a queue, aren't repeated. A key with the maximum number of ids is asked once, without an id. Put this
/// layer directly around a store, inside the other layers: they get the outcome of both attempts.
///
/// An id makes a request about 1.5 times as expensive for the server.
///
/// ```
/// use sluicegate::layers::Retry;
/// use sluicegate::{Limiter, MemoryStore};
///
/// // Of a store that answers at once the outcome is always known.
/// let store = Retry::new(MemoryStore::new());
/// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["gcra 1/h"])?);
/// assert!(limiter.check("alice").now()?.is_allowed());
/// assert!(limiter.check("alice").now()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Retry<S> {
    store: S,
    shared: Arc<Counts>,
    serves: bool,
    /// Deadline of limits that are opened without one.
    deadline: Duration,
}

/// A limit that a [`Retry`] has opened.
pub struct RetryLimit<L> {
    opened: L,
    /// Opened with half of the deadline; `None` if its requests are never repeated.
    half: Option<L>,
    /// Time for which an id is recognized: longer than any caller waits.
    lasts: Duration,
    shared: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    again: AtomicU64,
    answered: AtomicU64,
}

impl<S: Store> Retry<S> {
    /// Makes a store that repeats requests to all its limits. Limits that are opened without a deadline get one of 50
    /// ms.
    pub fn new(store: S) -> Self {
        Self { serves: true, ..Self::of_those_who_want(store, DEADLINE) }
    }

    /// Makes a store that repeats requests to limits that are opened with [`RetriesUnknown`]. Limits without a deadline
    /// get this one.
    pub fn of_those_who_want(store: S, deadline: Duration) -> Self {
        Self { store, shared: Arc::default(), serves: false, deadline }
    }
}

impl<S: Store> Store for Retry<S> {
    type Opened = RetryLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        let wanted = options.for_layer::<RetriesUnknown>();
        let serves = wanted.map_or(self.serves, |wanted| wanted.0) && limit.parts().len() == 1;
        let deadline = options.deadline.unwrap_or(self.deadline);
        let half = serves.then(|| {
            let half = (deadline / 2).max(Duration::from_micros(1));
            self.store.open(limit.clone(), options.clone().deadline(half))
        });
        let lasts = deadline.saturating_mul(2);
        RetryLimit {
            opened: self.store.open(limit, options),
            half,
            lasts: lasts.clamp(Idempotency::MIN_LASTS, Idempotency::MAX_LASTS),
            shared: Arc::clone(&self.shared),
        }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }

    fn measures(&self) -> Vec<Measure> {
        self.store.measures().into_iter().chain(self.shared.measures()).collect()
    }
}

impl<L: OpenedLimit> OpenedLimit for RetryLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.opened)
    }

    fn limit(&self) -> &Limit {
        self.opened.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        let Some(half) = self.half.as_ref().filter(|_| takes(&request)) else {
            return match self.opened.ask(request) {
                Answer::Now(answer) => Answer::Now(answer),
                Answer::Later(plain) => Answer::Later(Asking::Plain { plain }),
            };
        };
        // An immediate answer can't be lost.
        match self.opened.ask(request) {
            Answer::Now(answer) => Answer::Now(answer),
            // Nothing was sent yet.
            Answer::Later(_) => {
                Answer::Later(Asking::Twice { twice: Box::pin(self.ask_twice(half, request)) })
            }
        }
    }
}

impl<L: OpenedLimit> RetryLimit<L> {
    async fn ask_twice(&self, half: &L, request: Request<'_>) -> Result<Decision, Error> {
        let own = request.idempotency();
        let once = own.unwrap_or_else(|| Idempotency { id: random_id(), lasts: self.lasts });
        let known = request.idempotent(once);
        let first = half.ask(known).wait().await;
        let answer = match first {
            Err(Error::Store(error)) if error.is_outcome_unknown() => {
                self.shared.again.fetch_add(1, Ordering::Relaxed);
                let second = half.ask(known).wait().await;
                if second.is_ok() {
                    self.shared.answered.fetch_add(1, Ordering::Relaxed);
                }
                second
            }
            answer => answer,
        };
        match answer {
            // Only this layer has added an id.
            Err(Error::Request(error))
                if own.is_none() && error.kind() == RequestErrorKind::Full =>
            {
                half.ask(request).wait().await
            }
            Ok(decision) if own.is_none() && decision.is_repeat() => Ok(decision.without_repeat()),
            answer => answer,
        }
    }
}

/// Returns whether a request takes anything, so that sending it twice matters.
fn takes(request: &Request<'_>) -> bool {
    request.operation().can_hold() && request.leases().is_none() && request.ticket().is_none()
}

/// Returns an id that no other request has.
fn random_id() -> RequestId {
    RequestId::from_bytes(fastrand::u128(..).to_be_bytes())
}

pin_project! {
    /// A call to a store that is sent once, or possibly twice.
    #[project = Projected]
    enum Asking<'a, F> {
        Plain { #[pin] plain: F },
        Twice { twice: BoxFuture<'a, Result<Decision, Error>> },
    }
}

impl<F: Future<Output = Result<Decision, Error>>> Future for Asking<'_, F> {
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Projected::Plain { plain } => plain.poll(context),
            Projected::Twice { twice } => twice.as_mut().poll(context),
        }
    }
}

impl Counts {
    fn measures(&self) -> Vec<Measure> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let help = "Requests that were retried because their outcome was unknown";
        let again = Measure::counter("retries", help, count(&self.again));
        let help = "Requests that were retried and then answered";
        vec![again, Measure::counter("retries_answered", help, count(&self.answered))]
    }
}

show_briefly!(Retry, RetryLimit);
