//! Reservations: units taken ahead of time.

use std::fmt;
use std::ops::Deref;

use sluicegate_core::for_stores::{DecisionForStores as _, Driver};
use sluicegate_core::{Decision, Receipt, SharedStore, Store, Timestamp};
use tokio::runtime::Handle;

use super::Limiter;
use crate::background::finish;

/// The decision on a reservation, which can be cancelled.
///
/// It dereferences to its [`Decision`]. Act after [`Decision::wait`]. Dropping it keeps the units.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{Limiter, MemoryStore};
///
/// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("mail", ["gcra 1/s"])?);
/// let now = limiter.reserve("alice", Duration::from_secs(60)).now()?;
/// let later = limiter.reserve("alice", Duration::from_secs(60)).now()?;
/// assert!(now.wait().is_zero() && !later.wait().is_zero());
/// assert!(!now.cancel().now()?, "someone else stands behind it, and its turn is now");
/// assert!(later.cancel().now()?, "the last in line gives its units back");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Reservation<S: Store = SharedStore> {
    decision: Decision,
    /// The receipt and its limiter; `None` if no units were taken.
    taken: Option<Taken<S>>,
}

struct Taken<S: Store> {
    limiter: Limiter<S>,
    receipt: Receipt,
    /// The time of the reservation, if the limiter's time is injected.
    at: Option<Timestamp>,
}

impl<S: Store> Reservation<S> {
    pub(crate) fn new(mut decision: Decision, limiter: &Limiter<S>, at: Option<Timestamp>) -> Self {
        let taken =
            decision.take_receipt().map(|receipt| Taken { limiter: limiter.clone(), receipt, at });
        Self { decision, taken }
    }

    /// Makes a reservation for which no limit was asked: there is nothing to give back.
    pub(crate) const fn of_nothing(decision: Decision) -> Self {
        Self { decision, taken: None }
    }

    /// Returns the decision alone.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// Returns the receipt, for cancelling later or in another process ([`Limiter::cancel`]); `None` if no units were
    /// taken.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.taken.as_ref().map(|taken| &taken.receipt)
    }

    /// Sets the time at which the cancellation is evaluated, instead of the reservation's. For a limiter whose time is
    /// [injected](crate::store::TimeSource::Injected).
    pub fn at(mut self, time: Timestamp) -> Self {
        if let Some(taken) = &mut self.taken {
            taken.at = Some(time);
        }
        self
    }

    /// Returns the limiter, the receipt and the injected time of the reservation; `None` if no units were taken.
    pub(crate) fn taken(&self) -> Option<(&Limiter<S>, &Receipt, Option<Timestamp>)> {
        self.taken.as_ref().map(|taken| (&taken.limiter, &taken.receipt, taken.at))
    }

    /// Returns the decision, and a guard that gives the units back in the background when it is dropped.
    pub(super) fn cancel_on_drop(self) -> (Decision, CancelOnDrop<S>) {
        let runtime = Driver::around().ok();
        (self.decision, CancelOnDrop { taken: self.taken, runtime })
    }
}

/// A reservation whose caller may stop waiting for it.
pub(crate) struct CancelOnDrop<S: Store> {
    taken: Option<Taken<S>>,
    /// The runtime in which the caller waited: the guard may be dropped outside of it.
    runtime: Option<Handle>,
}

impl<S: Store> CancelOnDrop<S> {
    /// Keeps the units, because the caller acts.
    pub(super) fn keep(mut self) {
        self.taken = None;
    }
}

impl<S: Store> Drop for CancelOnDrop<S> {
    fn drop(&mut self) {
        let Some(Taken { limiter, receipt, at }) = self.taken.take() else {
            return;
        };
        let cancel = async move {
            // If the store fails, the units are lost, as documented.
            let _ = limiter.cancel_at(&receipt, at).await;
        };
        finish(Box::pin(cancel), self.runtime.as_ref());
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
