//! Verdicts on requests.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sluicegate_http::RequestView;

use super::admission::Admission;
use super::refusal::Refusal;
use crate::registry::Gate;

/// The verdict of [`Middleware::decide`](super::Middleware::decide) on a request.
#[derive(Debug)]
#[must_use]
pub enum Verdict {
    /// Serve the request.
    Admit(Admission),
    /// The limits or the store have to be awaited, or it is not the request's turn yet: await this first.
    Wait(Pending),
    /// Answer the request without its handler.
    Refuse(Refusal),
}

impl Verdict {
    /// Waits for a pending verdict. `request` is the request that was decided.
    ///
    /// # Errors
    /// Returns the refusal, if the request is refused.
    pub async fn admission<R: RequestView>(self, request: &R) -> Result<Admission, Refusal> {
        match self {
            Self::Admit(admission) => Ok(admission),
            Self::Wait(mut pending) => poll_fn(|context| pending.poll(request, context)).await,
            Self::Refuse(refusal) => Err(refusal),
        }
    }
}

/// A verdict to wait for: the choice of the limits, the store, or the request's turn.
///
/// [`Verdict::admission`] awaits it. [`poll`](Self::poll) is for futures that are written manually. Dropping it gives up
/// the turn.
#[must_use = "it does nothing unless polled"]
pub struct Pending(State);

enum State {
    Choosing(Choosing, Option<Decide>),
    Deciding(Deciding),
}

type Choosing = Pin<Box<dyn Future<Output = Result<Gate, Refusal>> + Send>>;
type Decide = Box<dyn FnOnce(Gate, &dyn RequestView) -> Verdict + Send>;
type Deciding = Pin<Box<dyn Future<Output = Result<Admission, Refusal>> + Send>>;

impl Pending {
    /// Waits until the store has answered, or the request's turn has come.
    pub(super) fn new(
        verdict: impl Future<Output = Result<Admission, Refusal>> + Send + 'static,
    ) -> Self {
        Self(State::Deciding(Box::pin(verdict)))
    }

    /// Waits until the limits are chosen, and then for what `decide` returns.
    pub(super) fn choosing(
        choosing: impl Future<Output = Result<Gate, Refusal>> + Send + 'static,
        decide: impl FnOnce(Gate, &dyn RequestView) -> Verdict + Send + 'static,
    ) -> Self {
        Self(State::Choosing(Box::pin(choosing), Some(Box::new(decide))))
    }

    /// Polls for the verdict on `request`, which is the request that was decided.
    ///
    /// # Errors
    /// Returns the refusal, if the request is refused.
    pub fn poll(
        &mut self,
        request: &dyn RequestView,
        context: &mut Context<'_>,
    ) -> Poll<Result<Admission, Refusal>> {
        loop {
            match &mut self.0 {
                State::Choosing(choosing, decide) => {
                    // A verdict that was returned isn't polled again.
                    if decide.is_none() {
                        return Poll::Pending;
                    }
                    let gate = ready!(choosing.as_mut().poll(context));
                    let Some(decide) = decide.take() else { return Poll::Pending };
                    match gate.map(|gate| decide(gate, request)) {
                        Ok(Verdict::Admit(admission)) => return Poll::Ready(Ok(admission)),
                        Ok(Verdict::Wait(pending)) => *self = pending,
                        Ok(Verdict::Refuse(refusal)) | Err(refusal) => {
                            return Poll::Ready(Err(refusal));
                        }
                    }
                }
                State::Deciding(deciding) => return deciding.as_mut().poll(context),
            }
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
