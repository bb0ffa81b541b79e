//! Units that were taken ahead of their time.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sluicegate_core::{Decision, Store, StoreError};
use tokio::runtime::Handle;

/// The answer to a reservation, and the means to give it back.
///
/// It reads like the [`Decision`] it is: [`Decision::wait`] tells when to act. Dropping it keeps
/// the units.
///
/// ```
/// use sluicegate::{Limiter, MemoryStore, Span};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = sluicegate::limit("mail", ["gcra 1/s"])?;
/// let limiter = Limiter::new(MemoryStore::builder().build(), limit);
/// let now = limiter.reserve("alice", Span::MINUTE).await?;
/// let later = limiter.reserve("alice", Span::MINUTE).await?;
/// assert!(now.wait().is_zero() && !later.wait().is_zero());
/// assert!(!now.cancel().await?, "someone else stands behind it");
/// assert!(later.cancel().await?, "the last in line gives its units back");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Reservation<S: Store> {
    decision: Decision,
    /// `None` when nothing was taken.
    held: Option<Held<S>>,
}

/// What is taken, and where from.
struct Held<S: Store> {
    store: Arc<S>,
    handle: Arc<S::Handle>,
    receipt: S::Receipt,
}

impl<S: Store> Reservation<S> {
    pub(super) fn new(
        decision: Decision,
        store: &Arc<S>,
        handle: &Arc<S::Handle>,
        receipt: Option<S::Receipt>,
    ) -> Self {
        let held = receipt.map(|receipt| Held {
            store: Arc::clone(store),
            handle: Arc::clone(handle),
            receipt,
        });
        Self { decision, held }
    }

    /// The answer by itself.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// Gives the units back if nothing was charged to the key after them, and tells whether that
    /// was so. Otherwise they are lost: whoever came later was told an instant that counts on
    /// them, and no two callers are told the same instant.
    ///
    /// # Errors
    /// When the store fails; then the units count as lost.
    pub async fn cancel(self) -> Result<bool, StoreError> {
        match self.held {
            Some(Held { store, handle, receipt }) => store.cancel(&handle, &receipt).await,
            None => Ok(false),
        }
    }

    /// Gives the units back in the background when this is dropped.
    pub(super) fn cancel_on_drop(self) -> CancelOnDrop<S> {
        CancelOnDrop { held: self.held, runtime: Handle::try_current().ok() }
    }
}

/// A reservation whose caller may stop waiting for it.
pub(super) struct CancelOnDrop<S: Store> {
    held: Option<Held<S>>,
    runtime: Option<Handle>,
}

impl<S: Store> CancelOnDrop<S> {
    /// The caller acts: the units are used.
    pub(super) fn keep(mut self) {
        self.held = None;
    }
}

impl<S: Store> Drop for CancelOnDrop<S> {
    fn drop(&mut self) {
        let Some(Held { store, handle, receipt }) = self.held.take() else {
            return;
        };
        let mut cancel: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            // A store that fails has lost the units, which is what is said of it.
            let _ = store.cancel(&handle, &receipt).await;
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
