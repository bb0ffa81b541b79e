//! One run of a maker, which any number of callers share.

use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use sluicegate_core::{BoxFuture, Error};
use tokio::sync::Notify;

/// A run of a maker.
pub(super) type Making<T> = BoxFuture<'static, Result<T, Error>>;

/// One run of a maker, which any number of callers share.
///
/// Each caller can advance it. So it continues if a caller is dropped, and it doesn't depend on a caller that is no
/// longer polled.
pub(super) struct Flight<T> {
    /// `None` before the first poll, and after a panic.
    making: Mutex<Option<Making<T>>>,
    outcome: OnceLock<Result<T, Error>>,
    bell: Arc<Bell>,
}

/// Wakes the callers of a flight.
struct Bell {
    /// Whether the run has to be polled.
    rang: AtomicBool,
    callers: Notify,
}

impl<T: Clone> Flight<T> {
    pub(super) fn new() -> Self {
        let bell = Bell { rang: AtomicBool::new(true), callers: Notify::new() };
        Self { making: Mutex::default(), outcome: OnceLock::new(), bell: Arc::new(bell) }
    }

    /// Waits for the outcome. The first caller starts the run by `make`. If the run panics, one caller panics, and
    /// another one starts again.
    pub(super) async fn outcome(&self, make: impl Fn() -> Making<T> + Send) -> Result<T, Error> {
        loop {
            let mut rung = pin!(self.bell.callers.notified());
            // Registered before the poll, so that no wake-up between the two is missed.
            rung.as_mut().enable();
            if let Some(outcome) = self.poll(&make) {
                return outcome;
            }
            rung.await;
        }
    }

    /// Advances the run if it can be advanced. Returns the outcome, if it is known.
    fn poll(&self, make: impl FnOnce() -> Making<T>) -> Option<Result<T, Error>> {
        // A wake-up reaches many callers, and one of them polls.
        let is_mine = || self.bell.rang.swap(false, Ordering::AcqRel);
        if self.outcome.get().is_none() && is_mine() {
            let ring = RingOnDrop(&self.bell);
            let mut making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            if self.outcome.get().is_none() {
                // Taken out, so that a run that panics is not polled again.
                let mut run = making.take().unwrap_or_else(make);
                let waker = Waker::from(Arc::clone(&self.bell));
                match run.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(outcome) => drop(self.outcome.set(outcome)),
                    Poll::Pending => {
                        *making = Some(run);
                        mem::forget(ring);
                    }
                }
            }
        }
        self.outcome.get().cloned()
    }
}

impl Bell {
    fn ring(&self) {
        self.rang.store(true, Ordering::Release);
        self.callers.notify_waiters();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

/// Wakes the callers at the end of a run, even if it panics.
struct RingOnDrop<'b>(&'b Bell);

impl Drop for RingOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ring();
    }
}
