//! Work after the response: pausing, charging, and giving back.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Decision, Error};
use sluicegate_http::PreparedFields;

use super::asks::{Asking, Charges, Question, fields_of};
use super::response_view::ResponseView;
use super::rules::{Pauses, Rules, Unanswered};
use crate::ask::Ask;
use crate::pause_on;
use crate::registry::Look;
use crate::store_health::log_unseen;

/// Work after the response. If it is dropped before there was a response, it gives nothing back. It then charges the
/// cost of unanswered requests, if charging comes after the response.
pub(super) struct AfterResponse {
    /// Boxed, since most requests have none. `None` once it is settled.
    open: Option<Box<Open>>,
}

struct Open {
    rules: Arc<Rules>,
    question: Question,
    /// The units to give back if the response requires it.
    taken: Option<Taken>,
}

/// The units that a request took before its response.
pub(super) struct Taken {
    pub(super) asking: Asking,
    pub(super) decision: Decision,
}

/// The state of the work.
pub(super) enum Settled {
    /// Nothing is left to do; with new response fields, if known.
    Done(Option<PreparedFields>),
    /// The store has to be awaited.
    Later(Later),
}

/// The remaining work for a response.
pub(super) struct Later {
    open: Box<Open>,
    /// The pauses that are left to set.
    pauses: Pauses,
    /// The charge, while there is something to charge.
    charge: Option<Charges>,
    /// The response fields after the work that is done.
    told: Option<PreparedFields>,
}

impl AfterResponse {
    pub(super) fn new(rules: Arc<Rules>, question: Question, taken: Option<Taken>) -> Self {
        Self { open: Some(Box::new(Open { rules, question, taken })) }
    }

    /// Does the work for the response, immediately if the store can.
    pub(super) fn settle(mut self, response: &dyn ResponseView) -> Settled {
        // If one of these functions panics, the charge is still made, and the units stay taken.
        let due = self.open.as_ref().map(|open| {
            let rules = &open.rules;
            (rules.charge_of(response), rules.gives_back(response), rules.pauses_of(response))
        });
        let Some((mut open, (charge, gives_back, pauses))) = self.open.take().zip(due) else {
            return Settled::Done(None);
        };
        open.taken = open.taken.take().filter(|_| gives_back);
        let charge = charge.map(|used| {
            if open.taken.is_none() {
                return Charges::all(used);
            }
            let charges = open.question.settle(used);
            open.taken = open.taken.take().filter(|_| open.question.takes_ahead());
            charges
        });
        let charge = charge.filter(|charge| !charge.is_free());
        Later { open, pauses, charge, told: None }.at_once()
    }
}

impl Drop for AfterResponse {
    fn drop(&mut self) {
        if let Some(open) = self.open.take()
            && open.rules.charge_after.is_some()
        {
            open.charge_unanswered();
        }
    }
}

impl Later {
    /// Does the work that the store can do immediately. The charge comes first, so that a client that hangs up between
    /// the two gains nothing. The pauses come last.
    fn at_once(mut self) -> Settled {
        if let Some(charge) = &self.charge {
            let charged = self.open.charge_at_once(|open, look| open.question.charge(charge, look));
            let Some(told) = charged else {
                return Settled::Later(self);
            };
            (self.charge, self.told) = (None, told);
        }
        if let Some(taken) = &self.open.taken {
            let Some(told) = self.open.give_back_at_once(taken) else {
                return Settled::Later(self);
            };
            self.told = told.or(self.told);
            self.open.taken = None;
        }
        while let Some((index, lasts)) = self.pauses.pop() {
            if self.open.pause_at_once(index, lasts).is_none() {
                self.pauses.push((index, lasts));
                return Settled::Later(self);
            }
        }
        Settled::Done(self.told)
    }

    /// Does the remaining work, and returns the new response fields. A client that hangs up in the meantime changes
    /// nothing.
    pub(super) async fn done(self) -> Option<PreparedFields> {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn(self.settle()).await.ok().flatten(),
            Err(_) => self.settle().await,
        }
    }

    async fn settle(self) -> Option<PreparedFields> {
        let Self { open, pauses, charge, mut told } = self;
        if let Some(charge) = &charge {
            let ask = open.question.charge(charge, &open.rules.gate.look());
            told = open.charge(ask).await;
        }
        if let Some(taken) = &open.taken {
            told = open.give_back(taken).await.or(told);
        }
        for (index, lasts) in pauses {
            open.pause(index, lasts).await;
        }
        told
    }
}

impl Open {
    fn charge_at_once<'a>(
        &'a self,
        ask: impl FnOnce(&'a Self, &Look) -> Result<Ask<'a>, Error>,
    ) -> Option<Option<PreparedFields>> {
        let look = self.rules.gate.look();
        let ask = match ask(self, &look) {
            Ok(ask) => ask,
            Err(error) => return Some(self.told(Ask::nothing(), Err(error))),
        };
        let answer = self.rules.gate.charge(ask.clone()).at_once()?;
        Some(self.told(ask, answer))
    }

    async fn charge(&self, ask: Result<Ask<'_>, Error>) -> Option<PreparedFields> {
        match ask {
            Ok(ask) => {
                let answer = self.rules.gate.charge(ask.clone()).await;
                self.told(ask, answer)
            }
            Err(error) => self.told(Ask::nothing(), Err(error)),
        }
    }

    fn give_back_at_once(&self, taken: &Taken) -> Option<Option<PreparedFields>> {
        let ask = (taken.asking)(&self.question);
        let answer = self.rules.gate.refund(ask).taken_by(&taken.decision).at_once()?;
        Some(self.given_back(taken, answer))
    }

    async fn give_back(&self, taken: &Taken) -> Option<PreparedFields> {
        let ask = (taken.asking)(&self.question);
        let answer = self.rules.gate.refund(ask).taken_by(&taken.decision).await;
        self.given_back(taken, answer)
    }

    /// Charges in the background: a new task calls a store over a network.
    #[cold]
    fn charge_unanswered(self: Box<Self>) {
        if matches!(&self.rules.unanswered, Unanswered::Charge(charge) if charge.is_free()) {
            return;
        }
        if self.charge_at_once(Self::unanswered).is_some() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                let ask = self.unanswered(&self.rules.gate.look());
                let _ = self.charge(ask).await;
            })),
            Err(_) => tracing::warn!(
                limit = self.rules.gate.name(),
                "a request without a response could not be charged: there is no runtime"
            ),
        }
    }

    fn unanswered(&self, look: &Look) -> Result<Ask<'_>, Error> {
        match &self.rules.unanswered {
            Unanswered::AsAsked => Ok(self.question.ask_rest()),
            Unanswered::Charge(charges) => self.question.charge(charges, look),
        }
    }

    fn pause_at_once(&self, index: usize, lasts: Duration) -> Option<()> {
        let gate = &self.rules.gate;
        let answer = gate.pause(self.question.ask_keys().only(index), lasts).at_once()?;
        pause_on::log(gate.name(), &answer);
        Some(())
    }

    async fn pause(&self, index: usize, lasts: Duration) {
        let gate = &self.rules.gate;
        let answer = gate.pause(self.question.ask_keys().only(index), lasts).await;
        pause_on::log(gate.name(), &answer);
    }

    fn told(&self, ask: Ask<'_>, answer: Result<Decision, Error>) -> Option<PreparedFields> {
        let gate = &self.rules.gate;
        let limit = gate.name();
        match answer {
            Ok(decision) => Some(fields_of(gate, &decision, || ask)),
            // The response is sent anyway; observers of the limit see the failure.
            Err(error) if error.is_store_failure() => {
                log_unseen(Some(limit), &error, "a request could not be charged");
                None
            }
            Err(error) => {
                tracing::error!(limit, %error, "a request can't be charged: correct what the program charges");
                None
            }
        }
    }

    fn given_back(&self, taken: &Taken, answer: Result<Decision, Error>) -> Option<PreparedFields> {
        match answer {
            // Without a limit that was asked, the fields are still those from before the response.
            Ok(decision) => {
                decision.limit()?;
                Some(fields_of(&self.rules.gate, &decision, || (taken.asking)(&self.question)))
            }
            // The response is sent anyway; observers of the limit see the failure.
            Err(error) => {
                let limit = Some(self.rules.gate.name());
                log_unseen(limit, &error, "the units of a request could not be given back");
                None
            }
        }
    }
}

impl std::fmt::Debug for AfterResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let question = self.open.as_ref().map(|open| &open.question);
        f.debug_tuple("AfterResponse").field(&question).finish()
    }
}
