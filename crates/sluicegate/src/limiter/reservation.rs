//! Units that were taken ahead of their time.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use sluicegate_core::{Decision, Error, Receipt, SharedStore, Store, Timestamp};
use tokio::runtime::Handle;

use super::Limiter;

/// The answer to a reservation, and the means to give it back.
///
/// It reads like the [`Decision`] it is: [`Decision::wait`] tells when to act. Dropping it keeps
/// the units.
///
/// ```
/// use sluicegate::{Limiter, MemoryStore, Span};
///
/// let limiter = Limiter::new(MemoryStore::new(), sluicegate::limit("mail", ["gcra 1/s"])?);
/// let now = limiter.reserve_now("alice", Span::MINUTE)?;
/// let later = limiter.reserve_now("alice", Span::MINUTE)?;
/// assert!(now.wait().is_zero() && !later.wait().is_zero());
/// assert!(!now.cancel_now()?, "someone else stands behind it");
/// assert!(later.cancel_now()?, "the last in line gives its units back");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Reservation<S: Store = SharedStore> {
    decision: Decision,
    /// What was taken, and where from; `None` when nothing was.
    taken: Option<Taken<S>>,
}

struct Taken<S: Store> {
    limiter: Limiter<S>,
    receipt: Receipt,
    /// Of a limiter whose time is injected.
    at: Option<Timestamp>,
}

impl<S: Store> Reservation<S> {
    pub(super) fn new(mut decision: Decision, limiter: &Limiter<S>, at: Option<Timestamp>) -> Self {
        let taken =
            decision.take_receipt().map(|receipt| Taken { limiter: limiter.clone(), receipt, at });
        Self { decision, taken }
    }

    /// What no limit was asked about: there is nothing to give back.
    pub(crate) const fn of_nothing(decision: Decision) -> Self {
        Self { decision, taken: None }
    }

    /// The answer by itself.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// What it takes to give the units back later, or in another process
    /// ([`Limiter::cancel`]); `None` when nothing was taken.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.taken.as_ref().map(|taken| &taken.receipt)
    }

    /// Judges a cancellation by this time rather than by that of the reservation, for a limiter
    /// whose time is [injected](crate::TimeSource::Injected).
    pub fn at(mut self, time: Timestamp) -> Self {
        if let Some(taken) = &mut self.taken {
            taken.at = Some(time);
        }
        self
    }

    /// Gives the units back if nothing was charged to the key after them, and tells whether that
    /// was so. Otherwise they are lost: whoever came later was told an instant that counts on
    /// them, and no two callers are told the same instant.
    ///
    /// # Errors
    /// When the store fails; then the units count as lost.
    pub async fn cancel(self) -> Result<bool, Error> {
        match self.taken {
            Some(Taken { limiter, receipt, at }) => limiter.cancel_at(&receipt, at).await,
            None => Ok(false),
        }
    }

    /// [`Reservation::cancel`] at once.
    ///
    /// # Errors
    /// Those of [`Reservation::cancel`];
    /// [`RequestErrorKind::WouldBlock`](crate::RequestErrorKind::WouldBlock) for a store that has
    /// to be waited for.
    pub fn cancel_now(self) -> Result<bool, Error> {
        match self.taken {
            Some(Taken { limiter, receipt, at }) => limiter.cancel_at_now(&receipt, at),
            None => Ok(false),
        }
    }

    /// The answer, and what gives the units back in the background when it is dropped.
    pub(super) fn cancel_on_drop(self) -> (Decision, CancelOnDrop<S>) {
        let runtime = Handle::try_current().ok();
        (self.decision, CancelOnDrop { taken: self.taken, runtime })
    }
}

/// A reservation whose caller may stop waiting for it.
pub(super) struct CancelOnDrop<S: Store> {
    taken: Option<Taken<S>>,
    /// Where the caller waited: it may be dropped somewhere else.
    runtime: Option<Handle>,
}

impl<S: Store> CancelOnDrop<S> {
    /// The caller acts: the units are used.
    pub(super) fn keep(mut self) {
        self.taken = None;
    }
}

impl<S: Store> Drop for CancelOnDrop<S> {
    fn drop(&mut self) {
        let Some(Taken { limiter, receipt, at }) = self.taken.take() else {
            return;
        };
        let mut cancel: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            // A store that fails has lost the units, which is what is said of it.
            let _ = limiter.cancel_at(&receipt, at).await;
        });
        // A store that waits for nothing is done at once, with a runtime or without.
        let entered = self.runtime.as_ref().map(Handle::enter);
        let done = cancel.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(entered);
        if let (Poll::Pending, Some(runtime)) = (done, &self.runtime) {
            runtime.spawn(cancel);
        }
    }
}

impl<S: Store> Deref for Reservation<S> {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

impl<S: Store> fmt::Debug for Reservation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("decision", &self.decision).finish_non_exhaustive()
    }
}
