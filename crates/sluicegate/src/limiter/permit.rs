//! Permits: units that are held until a value is dropped.

use std::sync::Arc;

use sluicegate_core::{
    Answer, Decision, Error, HoldToken, OpenedLimit as _, Operation, RequestError,
    RequestErrorKind, Span, Store,
};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::Limiter;
use super::queue::{Waited, no_pass};
use super::turn::left_until;
use crate::ask::Ask;
use crate::permit::{Held, Keeper, Moment, Permit, Terms, Unanswered};
use crate::trace::{answered_now, traced};

impl<S: Store> Limiter<S> {
    pub(crate) async fn take_permit(
        &self,
        ask: &Ask<'_>,
        terms: Terms,
        keeper: &Arc<dyn Keeper>,
        queue_until: Option<Instant>,
    ) -> Result<Permit, Error> {
        refuse_time(ask)?;
        let operation = Operation::Check;
        let hold = terms.hold(self.limit())?;
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, ask, &also, &mut each)?.hold(&hold);
        let request = request.connecting_within(queue_until.map_or(Span::ZERO, left_until));
        if let Some(end) = queue_until.filter(|_| self.can_queue(&request)) {
            // Boxed because it is rare and large.
            match Box::pin(self.queue(ask, hold, end, no_pass)).await {
                Ok(Waited { decision, token, sent }) => {
                    return Ok(permit(decision, token, sent, terms, keeper));
                }
                // The store has no queues.
                Err(Error::Request(error)) if error.kind() == RequestErrorKind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        let token = self.token(ask, &also, hold.id)?;
        let (sent, since) = (Moment::now(), self.inner.observers.start());
        let answer = match self.inner.opened.ask(request) {
            Answer::Now(answer) => {
                answered_now(self.limit(), operation, &answer);
                answer
            }
            Answer::Later(later) => {
                let unanswered =
                    Unanswered::new(Arc::clone(keeper), token.clone(), hold.lasts.into());
                let answer = traced(self.limit(), operation, later).await;
                if let Ok(decision) = &answer {
                    self.note_answer(decision);
                }
                unanswered.answered(&answer);
                answer
            }
        };
        let decision = self.answer(operation, ask, since, answer)?;
        Ok(permit(decision, token, sent, terms, keeper))
    }

    /// Returns the permit if the store can answer immediately. Otherwise returns `None` and sends nothing.
    pub(crate) fn take_permit_at_once(
        &self,
        ask: &Ask<'_>,
        terms: Terms,
        keeper: &Arc<dyn Keeper>,
    ) -> Option<Result<Permit, Error>> {
        let take = || {
            refuse_time(ask)?;
            let operation = Operation::Check;
            let hold = terms.hold(self.limit())?;
            let (mut each, also) = (SmallVec::new(), ask.also());
            let request = self.request(operation, ask, &also, &mut each)?.hold(&hold);
            let token = self.token(ask, &also, hold.id)?;
            let (sent, since) = (Moment::now(), self.inner.observers.start());
            let Some(answer) = self.inner.opened.ask_now(request) else { return Ok(None) };
            answered_now(self.limit(), operation, &answer);
            let decision = self.answer(operation, ask, since, answer)?;
            Ok(Some(permit(decision, token, sent, terms, keeper)))
        };
        take().transpose()
    }
}

/// Returns the permit of a decision, with the token for the record that it may have left.
fn permit(
    decision: Decision,
    token: HoldToken,
    sent: Moment,
    terms: Terms,
    keeper: &Arc<dyn Keeper>,
) -> Permit {
    let held = decision.hold().map_or_else(Held::nothing, |hold| {
        Held::new(Arc::clone(keeper), token, sent, hold.lasts.into(), terms.max_life.into())
    });
    Permit::new(decision, held)
}

fn refuse_time(ask: &Ask<'_>) -> Result<(), Error> {
    if ask.time().is_none() {
        return Ok(());
    }
    let message = "a request with a time of its own can't have a permit, which lives by the clock: use `hold`";
    Err(RequestError::new(RequestErrorKind::Unsupported, message).into())
}
