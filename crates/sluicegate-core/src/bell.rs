//! Notifiers that wake the waiters in a queue.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::hold::HoldId;

/// The notifiers of the waiters in this process, each registered under the id of its ticket. Clones
/// share them.
///
/// ```
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
/// use sluicegate_core::for_stores::Bells;
/// use sluicegate_core::HoldId;
///
/// let (bells, id) = (Bells::default(), HoldId::from_bytes([7; 16]));
/// let bell = bells.hang(id);
/// bells.ring([id]);
/// // Nobody has to listen at that moment.
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(pin!(bell.rung()).poll(&mut context).is_ready());
/// assert!(pin!(bell.rung()).poll(&mut context).is_pending());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Bells(Arc<Mutex<HashMap<HoldId, State>>>);

/// A notifier that wakes when a ticket's turn may have come. Dropping it removes its registration.
#[derive(Debug)]
pub struct Bell {
    bells: Bells,
    id: HoldId,
}

#[derive(Debug, Default)]
struct State {
    has_rung: bool,
    waker: Option<Waker>,
}

impl Bells {
    /// Registers a notifier for the ticket with this id.
    #[must_use]
    pub fn hang(&self, id: HoldId) -> Bell {
        self.all().insert(id, State::default());
        Bell { bells: self.clone(), id }
    }

    /// Returns `true` if no waiter is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Wakes the notifiers of these ids; ids without one are skipped.
    pub fn ring(&self, ids: impl IntoIterator<Item = HoldId>) {
        for id in ids {
            let waker = self.all().get_mut(&id).and_then(|state| {
                state.has_rung = true;
                state.waker.take()
            });
            // Wake outside the lock: the woken task may take it.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Wakes all notifiers, because a notification may have been missed.
    pub fn ring_all(&self) {
        let ids: Vec<HoldId> = self.all().keys().copied().collect();
        self.ring(ids);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<HoldId, State>> {
        // No code under this lock panics midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    /// Waits until the notifier has been woken. Returns immediately if it was woken before this
    /// call.
    pub async fn rung(&self) {
        poll_fn(|context| {
            let mut all = self.bells.all();
            let Some(state) = all.get_mut(&self.id) else { return Poll::Pending };
            if std::mem::take(&mut state.has_rung) {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.bells.all().remove(&self.id);
    }
}
