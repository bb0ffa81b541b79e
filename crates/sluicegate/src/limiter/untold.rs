//! The answer of a limiter, before and after observers see it.

use std::time::Duration;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Costs, Decision, Error, Operation, Purpose, Store, StoreError};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::Limiter;
use crate::ask::Ask;
use crate::observe::Answered;
use crate::on_store_failure::OnStoreFailure;

/// A decision that observers haven't seen. A caller that waits doesn't get the decisions that it retries after.
pub(super) struct Untold {
    pub(super) decision: Decision,
    failure: Option<StoreError>,
    /// The instant of the answer, and how long the store took. `None` without observers.
    timed: Option<(Instant, Duration)>,
}

impl Untold {
    pub(super) fn begins_ban(&self) -> bool {
        self.decision.ban().is_some_and(|ban| ban.begins)
    }
}

impl<S: Store> Limiter<S> {
    /// Returns the answer for the caller and for observers: the store's, or the limiter's fallback if the
    /// store failed.
    pub(super) fn answer(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        since: Option<Instant>,
        answer: Result<Decision, Error>,
    ) -> Result<Decision, Error> {
        let untold = self.untold(operation, ask, since, answer)?;
        Ok(self.tell(operation, ask, untold))
    }

    /// Returns the decision for the caller, before observers see it. They see errors immediately.
    pub(super) fn untold(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        since: Option<Instant>,
        answer: Result<Decision, Error>,
    ) -> Result<Untold, Error> {
        if let Ok(decision) = &answer {
            self.inner.observers.note_room(self.limit(), decision);
        }
        let failure = answer.as_ref().err().and_then(Error::as_store).cloned();
        if let Some(error) = &failure {
            self.note_failure(error);
        }
        // Nothing was charged, given back or forgotten, so a decision would be wrong.
        let is_question = operation.purpose() == Purpose::Admit;
        let fallback = |allowed| Ok(Decision::fallback(self.limit(), allowed));
        // With `Local` a layer has decided, and a failure here is a request that the layer can't decide.
        let answer = match (self.inner.on_store_failure, &failure) {
            (OnStoreFailure::Allow, Some(_)) if is_question => fallback(true),
            (OnStoreFailure::Deny, Some(_)) if is_question => fallback(false),
            _ => answer,
        };
        let timed = since.map(|since| {
            let took = since.elapsed();
            (since + took, took)
        });
        match answer {
            Ok(decision) => Ok(Untold { decision, failure, timed }),
            Err(error) => {
                self.tell_observers(operation, ask, Err(&error), (failure.as_ref(), timed));
                Err(error)
            }
        }
    }

    /// Notifies observers of a decision, which is the one that the caller gets.
    pub(super) fn tell(&self, operation: Operation<'_>, ask: &Ask<'_>, untold: Untold) -> Decision {
        let Untold { decision, failure, timed } = untold;
        self.tell_observers(operation, ask, Ok(&decision), (failure.as_ref(), timed));
        decision
    }

    fn tell_observers(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        outcome: Result<&Decision, &Error>,
        (failure, timed): (Option<&StoreError>, Option<(Instant, Duration)>),
    ) {
        let Some((at, took)) = timed else { return };
        let mut each = SmallVec::new();
        // A request with invalid costs was refused before.
        let costs = ask.costs(self.limit(), &mut each).unwrap_or(Costs::Own);
        self.inner.observers.tell(&Answered {
            limit: self.limit(),
            keys: &ask.keys(),
            unasked: ask.unasked(),
            operation,
            costs,
            outcome,
            failure,
            at: at.into_std(),
            took,
        });
    }
}
