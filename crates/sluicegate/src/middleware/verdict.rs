//! Verdicts on requests.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::admission::Admission;
use super::refusal::Refusal;

/// The verdict of [`Middleware::decide`](super::Middleware::decide) on a request.
#[derive(Debug)]
#[must_use]
pub enum Verdict {
    /// Serve the request.
    Admit(Admission),
    /// The store has to be awaited, or it is not the request's turn yet: await this first.
    Wait(Pending),
    /// Answer the request without its handler.
    Refuse(Refusal),
}

impl Verdict {
    /// Waits for a pending verdict.
    ///
    /// # Errors
    /// Returns the refusal, if the request is refused.
    pub async fn admission(self) -> Result<Admission, Refusal> {
        match self {
            Self::Admit(admission) => Ok(admission),
            Self::Wait(pending) => pending.await,
            Self::Refuse(refusal) => Err(refusal),
        }
    }
}

/// A future for a verdict, which waits for the store or for the request's turn.
///
/// Dropping it gives up the turn.
#[must_use = "futures do nothing unless polled"]
pub struct Pending(Pin<Box<dyn Future<Output = Result<Admission, Refusal>> + Send>>);

impl Pending {
    /// Waits until the store has answered, or the request's turn has come.
    pub(super) fn new(
        verdict: impl Future<Output = Result<Admission, Refusal>> + Send + 'static,
    ) -> Self {
        Self(Box::pin(verdict))
    }
}

impl Future for Pending {
    type Output = Result<Admission, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
