//! What happens to a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::admission::Admission;
use super::question::Question;
use super::refusal::Refusal;
use super::rules::Rules;
use crate::caller::Caller;

/// What happens to a request: the answer of [`Middleware::decide`](super::Middleware::decide).
#[derive(Debug)]
#[must_use]
pub enum Verdict {
    /// It is let in: serve it.
    Admit(Admission),
    /// It is not known yet, or it is not the request's turn: await this first.
    Wait(Pending),
    /// It is turned away: answer it without its handler.
    Refuse(Refusal),
}

impl Verdict {
    /// Waits for what is to be waited for.
    ///
    /// # Errors
    /// The refusal of a request that is turned away.
    pub async fn admission(self) -> Result<Admission, Refusal> {
        match self {
            Self::Admit(admission) => Ok(admission),
            Self::Wait(pending) => pending.await,
            Self::Refuse(refusal) => Err(refusal),
        }
    }
}

/// A verdict that has to be waited for: for the store, or for the request's turn.
///
/// Dropped, it gives the turn up.
#[must_use = "futures do nothing unless polled"]
pub struct Pending(Pin<Box<dyn Future<Output = Result<Admission, Refusal>> + Send>>);

impl Pending {
    /// Until the store has answered, and the turn has come.
    pub(super) fn answer(rules: Arc<Rules>, question: Question, caller: Option<Caller>) -> Self {
        Self(Box::pin(async move {
            let mut admission = rules.wait_for(question).await?;
            admission.caller = caller;
            Ok(admission)
        }))
    }

    /// Until the turn of a request has come that is let in.
    pub(super) fn turn(admission: Admission) -> Self {
        Self(Box::pin(async move { Ok(admission.waited().await) }))
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
