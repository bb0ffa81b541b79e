//! Waking those who wait in a queue.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::hold::HoldId;

/// The bells of those who wait in this process, each under the id that its ticket goes by. Clones are the
/// same ones.
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

/// Rings when a ticket's turn may have come. It is taken down when it is dropped.
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
    /// A bell for the ticket of an id.
    #[must_use]
    pub fn hang(&self, id: HoldId) -> Bell {
        self.all().insert(id, State::default());
        Bell { bells: self.clone(), id }
    }

    /// Whether nobody listens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Rings those of these ids.
    pub fn ring(&self, ids: impl IntoIterator<Item = HoldId>) {
        for id in ids {
            let waker = self.all().get_mut(&id).and_then(|state| {
                state.has_rung = true;
                state.waker.take()
            });
            // Not under the lock: whoever is woken may take it.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Rings all: something may have been missed.
    pub fn ring_all(&self) {
        let ids: Vec<HoldId> = self.all().keys().copied().collect();
        self.ring(ids);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<HoldId, State>> {
        // Nothing that is done under this lock panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    /// Returns once it has rung, be it before this was asked.
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
