//! Settles holds and renews them, and tells observers of this and of cancellations.

use sluicegate_core::{Answer, Decision, Error, OpenedLimit as _, Operation, Request, Store};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::Limiter;
use crate::observe::Settled;
use crate::trace::{answered_now, traced};

impl<S: Store> Limiter<S> {
    /// Sends a settlement or a renewal.
    pub(crate) async fn settle_later(&self, request: Request<'_>) -> Result<Decision, Error> {
        let since = self.inner.observers.start();
        let answer = match self.inner.opened.ask(request) {
            Answer::Now(answer) => {
                answered_now(self.limit(), request.operation(), &answer);
                answer
            }
            Answer::Later(later) => {
                let answer = traced(self.limit(), request.operation(), later).await;
                if let Ok(decision) = &answer {
                    self.note_answer(decision);
                }
                answer
            }
        };
        self.tell_settled(&request, since, &answer);
        answer
    }

    /// Settles or renews if the store can answer immediately. Otherwise returns `None` and sends nothing.
    pub(crate) fn settle_at_once(&self, request: Request<'_>) -> Option<Result<Decision, Error>> {
        let since = self.inner.observers.start();
        let answer = self.inner.opened.ask_now(request)?;
        answered_now(self.limit(), request.operation(), &answer);
        self.tell_settled(&request, since, &answer);
        Some(answer)
    }

    /// Notifies observers, and logs a failure.
    pub(super) fn tell_settled(
        &self,
        request: &Request<'_>,
        since: Option<Instant>,
        answer: &Result<Decision, Error>,
    ) {
        let failure = answer.as_ref().err().and_then(Error::as_store);
        if let Some(error) = failure {
            self.note_failure(error);
        }
        let Some(since) = since else { return };
        let took = since.elapsed();
        // A receipt has the subjects of a cancellation.
        let keys: SmallVec<[&[u8]; 2]> = match request.operation() {
            Operation::Cancel(receipt) => {
                (0..self.limit().parts().len()).map(|part| receipt.subject(part)).collect()
            }
            _ => {
                let rest = request.further_subjects().iter().copied();
                std::iter::once(request.key()).chain(rest).collect()
            }
        };
        self.inner.observers.tell_settled(&Settled {
            limit: self.limit(),
            keys: &keys,
            operation: request.operation(),
            outcome: answer.as_ref(),
            failure,
            at: (since + took).into_std(),
            took,
        });
    }
}
