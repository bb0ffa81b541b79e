//! Permits: holding what is in flight for as long as a value lives.

use std::sync::Arc;

use sluicegate_core::{
    Answer, BoxFuture, Decision, Error, HoldToken, OpenedLimit as _, Operation, RequestError,
    RequestErrorKind, Span, Store,
};
use smallvec::SmallVec;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::acquire::left_until;
use super::queue::{Waited, no_pass};
use super::{Limiter, renewal, settlement, subjects};
use crate::ask::Ask;
use crate::permit::{Held, Keeper, Moment, Permit, PermitAsk, Terms, Unanswered};
use crate::usage::Usage;

impl<S: Store> Limiter<S> {
    /// Asks for a permit: takes the cost or is denied, and holds what it took until the [`Permit`] is
    /// dropped. The way to be admitted under a policy
    /// [`concurrency`](crate::Policy::concurrency); other limits hold, too, what they charged, to be
    /// [settled](Permit::settle).
    ///
    /// ```
    /// use sluicegate::{Limiter, MemoryStore, Span};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let limit = sluicegate::limit("export", ["concurrency 2 hold 30s"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let permit = limiter.permit("acme").within(Span::SECOND).await?;
    /// if permit.is_denied() {
    ///     return Err(format!("two exports are running: try again in {:?}", permit.retry_after()).into());
    /// }
    /// assert_eq!(permit.remaining(), Some(1));
    /// // The export runs, and then:
    /// drop(permit);
    /// assert_eq!(limiter.peek("acme").await?.remaining(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If the store failed and the limiter allows everything then, the permit is allowed and holds
    /// nothing.
    pub fn permit<'a>(&self, ask: impl Into<Ask<'a>>) -> PermitAsk<'a> {
        PermitAsk::new(self.clone(), ask.into())
    }

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
            // It is seldom, and large.
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
            Answer::Now(answer) => answer,
            Answer::Later(later) => {
                let unanswered = Unanswered::new(Arc::clone(keeper), token.clone(), hold.lasts);
                let answer = later.instrument(self.span(operation)).await;
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

    /// The permit if the store can answer immediately; `None` otherwise, and then nothing was asked.
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
            let decision = self.answer(operation, ask, since, answer)?;
            Ok(Some(permit(decision, token, sent, terms, keeper)))
        };
        take().transpose()
    }
}

/// The permit of a decision, and of the token for the record that it may have left.
fn permit(
    decision: Decision,
    token: HoldToken,
    sent: Moment,
    terms: Terms,
    keeper: &Arc<dyn Keeper>,
) -> Permit {
    let held = decision.hold().map_or_else(Held::nothing, |hold| {
        Held::new(Arc::clone(keeper), token, sent, hold.lasts, terms.max_life)
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

impl<S: Store> Keeper for Limiter<S> {
    fn take<'a, 'k: 'a>(
        &'a self,
        own: &'a Arc<dyn Keeper>,
        ask: &'a Ask<'k>,
        terms: Terms,
        queue_until: Option<Instant>,
    ) -> BoxFuture<'a, Result<Permit, Error>> {
        Box::pin(self.take_permit(ask, terms, own, queue_until))
    }

    fn take_now(
        &self,
        own: &Arc<dyn Keeper>,
        ask: &Ask<'_>,
        terms: Terms,
    ) -> Result<Permit, Error> {
        let taken = self.take_permit_at_once(ask, terms, own);
        taken.unwrap_or_else(|| Err(self.would_block()))
    }

    fn renew_held<'a>(
        &'a self,
        token: &'a HoldToken,
        lasts: Span,
    ) -> BoxFuture<'a, Result<Decision, Error>> {
        Box::pin(async move { self.go_by_record(renewal(token, &subjects(token), lasts)).await })
    }

    fn settle_held<'a, 'u: 'a>(
        &'a self,
        token: &'a HoldToken,
        usage: &'a Usage<'u>,
    ) -> BoxFuture<'a, Result<Decision, Error>> {
        Box::pin(self.settle_by(token, usage))
    }

    fn settle_held_at_once(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
    ) -> Option<Result<Decision, Error>> {
        let units = match self.units(usage) {
            Ok(units) => units,
            Err(error) => return Some(Err(error)),
        };
        self.go_by_record_at_once(settlement(token, &subjects(token), &units))
    }
}
