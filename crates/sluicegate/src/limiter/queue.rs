//! Waiting in the queue of a limit's permits.

use std::future::{Future, Ready, ready};
use std::time::Duration;

use sluicegate_core::for_stores::Driver;
use sluicegate_core::{
    Decision, Error, Hold, HoldToken, OpenedLimit as _, Operation, Queued, Request, RequestError,
    RequestErrorKind, Span, Store, Ticket,
};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::turn::{left_until, next_attempt};
use super::{Limiter, Untold};
use crate::ask::Ask;
use crate::background::finish;
use crate::holding::Holding;
use crate::permit::{Moment, Pauses};
use crate::timer::{sleep_until, timeout_at};
use crate::trace::traced;

/// Lifetime of a ticket after its waiter's last request.
const LIVES: Span = match Span::from_millis(5_000) {
    Ok(span) => span,
    Err(_) => Span::SECOND,
};

/// Poll interval of the first waiter where waiters aren't notified of their turn. The second waiter polls half as
/// often, and the third a third as often. So n waiters send at most 100·(1 + ln n) requests a second.
const PACE: Duration = Duration::from_millis(10);

impl<S: Store> Limiter<S> {
    /// Returns whether a request can wait in a queue. Its limit must be alone and have a queue in which the request
    /// costs anything, and the request must have no id.
    pub(crate) fn can_queue(&self, request: &Request<'_>) -> bool {
        let limit = self.limit();
        limit.parts().len() == 1
            && request.idempotency().is_none()
            && limit.only_queue().is_some_and(|queue| request.cost_of(limit, queue) > 0)
    }

    /// Returns the hold of the request, if it can wait for it in a queue.
    pub(crate) fn hold_in_queue(
        &self,
        ask: &Ask<'_>,
        holding: Holding,
    ) -> Result<Option<Hold>, Error> {
        if self.limit().only_queue().is_none() || ask.time().is_some() {
            return Ok(None);
        }
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(Operation::Check, ask, &also, &mut each)?;
        if self.can_queue(&request) { holding.of(self.limit()) } else { Ok(None) }
    }

    /// Waits in the queue. `pass` is awaited before each call to the store, and its result is dropped when the store
    /// has answered.
    pub(crate) async fn queue<P, F, E>(
        &self,
        ask: &Ask<'_>,
        hold: Hold,
        end: Instant,
        pass: impl Fn() -> F,
    ) -> Result<Waited, E>
    where
        F: Future<Output = Result<P, E>>,
        E: From<Error>,
    {
        if ask.time().is_some() {
            let message = "a request with its own time can't wait: send it with a hold, and retry";
            let error = RequestError::new(RequestErrorKind::Unsupported, message);
            return Err(Error::from(error).into());
        }
        let also = ask.also();
        let token = self.token(ask, &also, hold.id)?;
        let ticket = Ticket { priority: ask.priority_of(), lives: LIVES };
        let mut place = LeaveOnDrop::new(self, token.clone());
        let mut has_waited = false;
        let mut pauses = Pauses::until(end);
        loop {
            let passed = pass().await?;
            // Register before the request, so that no notification between the answer and the wait is missed.
            let bell = self.inner.opened.bell(hold.id);
            place.may_have_ticket = true;
            let sent = Moment::now();
            let asking = self.ask_to_wait(ask, &also, (&hold, &ticket), end);
            let (untold, is_over) = match asking.await {
                Ok(answered) => answered,
                Err(error) => {
                    // A request that is refused with this error has left no ticket.
                    place.may_have_ticket = has_waited || !matches!(error, Error::Request(_));
                    drop(passed);
                    let Some(next) = pauses.after_error(&error) else { return Err(error.into()) };
                    sleep_until(next).await;
                    continue;
                }
            };
            drop(passed);
            let decision = &untold.decision;
            if decision.is_allowed() {
                place.may_have_ticket = false;
                let decision = self.tell(Operation::Check, ask, untold);
                return Ok(Waited { decision, token, sent });
            }
            let now = Instant::now();
            let next = match decision.queued() {
                Some(Queued::Waits { ahead, ask_within }) if !is_over => {
                    has_waited = true;
                    let within = Duration::from(ask_within);
                    let places = u32::try_from(ahead).unwrap_or(u32::MAX).saturating_add(1);
                    let pace = if bell.is_some() { within } else { PACE.saturating_mul(places) };
                    Some(now + pace.min(within))
                }
                // The store has removed the ticket. Or another policy refuses, so there is nothing to queue for yet. Or
                // a ban or a pause refuses, which leaves an existing ticket in its position.
                Some(Queued::Waits { .. }) | None => {
                    place.may_have_ticket = !is_over
                        && has_waited
                        && (decision.ban().is_some() || decision.pause().is_some());
                    next_attempt(decision, end)
                }
                // The queue is full: no ticket is kept.
                Some(_) => {
                    place.may_have_ticket = false;
                    None
                }
            };
            let never = decision.retry_after().duration().is_none();
            let next = next.filter(|_| now < end && !never);
            if let Some(next) = next {
                match bell {
                    Some(bell) => drop(timeout_at(next.min(end), bell.rung()).await),
                    None => sleep_until(next.min(end)).await,
                }
            }
            if next.is_none() || Instant::now() >= end {
                let decision = self.tell(Operation::Check, ask, untold);
                // Leave before returning, because the caller may end its runtime after the answer.
                place.leave().await;
                return Ok(Waited { decision, token, sent });
            }
            if untold.begins_ban() {
                let _ = self.tell(Operation::Check, ask, untold);
            }
        }
    }

    /// Returns the decision, and whether the wait has ended in a store that keeps queue positions itself.
    async fn ask_to_wait(
        &self,
        ask: &Ask<'_>,
        also: &[&[u8]],
        (hold, ticket): (&Hold, &Ticket),
        end: Instant,
    ) -> Result<(Untold, bool), Error> {
        let operation = Operation::Check;
        let mut each = SmallVec::new();
        let left = left_until(end);
        let request = self.request(operation, ask, also, &mut each)?.hold(hold).waiting(ticket);
        let request = request.connecting_within(left);
        let since = self.inner.observers.start();
        let opened = &self.inner.opened;
        let (answer, is_over) = match opened.wait_in_queue(request, left) {
            Some(waiting) => (traced(self.limit(), operation, waiting).await, true),
            None => {
                let asking = opened.ask(request).wait();
                (traced(self.limit(), operation, asking).await, false)
            }
        };
        if let Ok(decision) = &answer {
            self.note_answer(decision);
        }
        Ok((self.untold(operation, ask, since, answer)?, is_over))
    }
}

/// Returns a pass for callers that may call the store at any time.
pub(crate) fn no_pass() -> Ready<Result<(), Error>> {
    ready(Ok(()))
}

/// The outcome of a wait: the last decision, the token for its possible hold, and when the request was sent.
pub(crate) struct Waited {
    pub(crate) decision: Decision,
    pub(crate) token: HoldToken,
    pub(crate) sent: Moment,
}

/// The queue position of a caller that may stop waiting. If it does, this leaves the queue, and gives back units that
/// the store may have charged without an answer.
struct LeaveOnDrop<S: Store> {
    limiter: Limiter<S>,
    token: HoldToken,
    may_have_ticket: bool,
    /// The runtime in which the caller waited: this value may be dropped outside of it.
    runtime: Option<Handle>,
}

impl<S: Store> LeaveOnDrop<S> {
    fn new(limiter: &Limiter<S>, token: HoldToken) -> Self {
        let runtime = Driver::around().ok();
        Self { limiter: limiter.clone(), token, may_have_ticket: false, runtime }
    }

    /// Leaves the queue, and waits until that is done.
    async fn leave(mut self) {
        if self.may_have_ticket {
            leave(&self.limiter, &self.token).await;
            self.may_have_ticket = false;
        }
    }
}

impl<S: Store> Drop for LeaveOnDrop<S> {
    fn drop(&mut self) {
        if self.may_have_ticket {
            let (limiter, token) = (self.limiter.clone(), self.token.clone());
            let leaving = async move { leave(&limiter, &token).await };
            finish(Box::pin(leaving), self.runtime.as_ref());
        }
    }
}

/// Leaves the queue. If the store fails, the ticket and a possible hold expire on their own.
async fn leave<S: Store>(limiter: &Limiter<S>, token: &HoldToken) {
    // A request waits for one limit.
    let nothing: SmallVec<[_; 4]> = SmallVec::from_elem(Some(0), limiter.limit().members().len());
    let _ = limiter.settle_later(Request::settle(token.subject(0), token.id(), &nothing)).await;
}
