//! Charging after the response.

use std::sync::Arc;

use sluicegate_core::{Error, Operation};
use sluicegate_http::PreparedFields;

use super::charge::Charge;
use super::question::{Answer, Question, fields_of};
use super::response_view::ResponseView;
use super::rules::{Rules, Unanswered};
use crate::ask::Ask;
use crate::registry::{Look, fields};

/// The charge that is due after the response. Dropped before there was a response, it charges what
/// unanswered requests cost.
pub(super) struct Due {
    /// Boxed, since most requests have none. `None` once it is settled.
    open: Option<Box<Open>>,
}

struct Open {
    rules: Arc<Rules>,
    question: Question,
}

/// The state of a charge.
pub(super) enum Settled {
    /// The response costs nothing.
    Free,
    /// It is charged; with new response fields, if known.
    Charged(Option<PreparedFields>),
    /// The store has to be awaited.
    Later(Charging),
}

/// A charge for which the store has to be awaited.
pub(super) struct Charging {
    open: Box<Open>,
    charge: Charge,
}

impl Due {
    pub(super) fn new(rules: Arc<Rules>, question: Question) -> Self {
        Self { open: Some(Box::new(Open { rules, question })) }
    }

    /// Charges for the response, immediately if the store can.
    pub(super) fn settle(mut self, response: &dyn ResponseView) -> Settled {
        // If the function panics, the charge stays due.
        let charge = self.open.as_ref().and_then(|open| open.rules.charge_of(response));
        let Some((open, charge)) = self.open.take().zip(charge) else {
            return Settled::Free;
        };
        match open.charge_at_once(|open, look| open.question.charge(&charge, look)) {
            Some(told) => Settled::Charged(told),
            None => Settled::Later(Charging { open, charge }),
        }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.charge_unanswered();
        }
    }
}

impl Charging {
    /// Charges, and returns the new response fields.
    pub(super) async fn done(self) -> Option<PreparedFields> {
        let Self { open, charge } = &self;
        let ask = open.question.charge(charge, &open.rules.gate.look());
        open.charge(ask).await
    }
}

impl Open {
    fn charge_at_once<'a>(
        &'a self,
        ask: impl FnOnce(&'a Self, &Look<'_>) -> Result<Ask<'a>, Error>,
    ) -> Option<Option<PreparedFields>> {
        let look = self.rules.gate.look();
        let ask = match ask(self, &look) {
            Ok(ask) => ask,
            Err(error) => return Some(self.told(&Ask::nothing(), Err(error))),
        };
        Some(self.told(&ask, look.ask_at_once(Operation::Charge, &ask)?))
    }

    async fn charge(&self, ask: Result<Ask<'_>, Error>) -> Option<PreparedFields> {
        match ask {
            Ok(ask) => {
                let answer = self.rules.gate.ask_and_tell(Operation::Charge, &ask, fields).await;
                self.told(&ask, answer)
            }
            Err(error) => self.told(&Ask::nothing(), Err(error)),
        }
    }

    /// Charges in the background: a store over a network is asked in a new task.
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

    fn unanswered(&self, look: &Look<'_>) -> Result<Ask<'_>, Error> {
        match &self.rules.unanswered {
            Unanswered::AsAsked => Ok(self.question.ask_rest()),
            Unanswered::Charge(charge) => self.question.charge(charge, look),
        }
    }

    fn told(&self, ask: &Ask<'_>, answer: Answer) -> Option<PreparedFields> {
        let limit = self.rules.gate.name();
        match answer {
            Ok((decision, fields)) => Some(fields_of(ask, &decision, fields.as_ref())),
            // The response is sent anyway; observers of the limit see the failure.
            Err(error) if error.is_store_failure() => {
                tracing::warn!(limit, %error, "a request could not be charged");
                None
            }
            Err(error) => {
                tracing::error!(limit, %error, "a request can't be charged: correct what the program charges");
                None
            }
        }
    }
}

impl std::fmt::Debug for Due {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let question = self.open.as_ref().map(|open| &open.question);
        f.debug_tuple("Due").field(&question).finish()
    }
}
