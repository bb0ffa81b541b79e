//! What is charged when the response is there.

use std::sync::Arc;

use sluicegate_core::{Cost, Operation};
use sluicegate_http::ReadyFields;

use super::question::{Answer, Question};
use super::response_view::ResponseView;
use super::rules::{Rules, Unanswered};
use crate::ask::Ask;
use crate::registry::fields;

/// What is to be charged when the response is there. Where it is dropped before anybody has seen
/// a response, it charges what such requests cost.
pub(super) struct Due {
    /// On the heap: most requests have none. `None` when it is settled.
    open: Option<Box<Open>>,
}

struct Open {
    rules: Arc<Rules>,
    question: Question,
}

/// How the charge of a response goes.
pub(super) enum Settled {
    /// It costs nothing.
    Free,
    /// It is charged: what the client is told then instead, if that is known.
    Charged(Option<ReadyFields>),
    /// The store has to be waited for.
    Later(Charging),
}

/// A charge that the store has to be waited for.
pub(super) struct Charging {
    open: Box<Open>,
    units: u64,
}

impl Due {
    pub(super) fn new(rules: Arc<Rules>, question: Question) -> Self {
        Self { open: Some(Box::new(Open { rules, question })) }
    }

    /// Charges what the response costs: at once, if the store can.
    pub(super) fn settle(mut self, response: &dyn ResponseView) -> Settled {
        // A function that panics leaves it open.
        let units = self.open.as_ref().and_then(|open| open.rules.charge_of(response));
        let Some((open, units)) = self.open.take().zip(units) else {
            return Settled::Free;
        };
        let charged = open.charge_at_once(&open.question.charge(units));
        match charged {
            Some(told) => Settled::Charged(told),
            None => Settled::Later(Charging { open, units }),
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
    /// Charges; what the client is told then, instead.
    pub(super) async fn done(self) -> Option<ReadyFields> {
        self.open.charge(&self.open.question.charge(self.units)).await
    }
}

impl Open {
    fn charge_at_once(&self, ask: &Ask<'_>) -> Option<Option<ReadyFields>> {
        Some(self.told(self.rules.gate.look().ask_at_once(Operation::Charge, ask)?))
    }

    async fn charge(&self, ask: &Ask<'_>) -> Option<ReadyFields> {
        self.told(self.rules.gate.ask_and_tell(Operation::Charge, ask, fields).await)
    }

    /// Nobody waits for this: a store over a network is asked by a task of its own.
    #[cold]
    fn charge_unanswered(self: Box<Self>) {
        if let Unanswered::Units(0) = self.rules.unanswered {
            return;
        }
        if self.charge_at_once(&self.unanswered()).is_some() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                let _ = self.charge(&self.unanswered()).await;
            })),
            Err(_) => tracing::warn!(
                limit = self.rules.gate.name(),
                "a request without a response could not be charged: there is no runtime"
            ),
        }
    }

    fn unanswered(&self) -> Ask<'_> {
        match self.rules.unanswered {
            Unanswered::AsAsked => self.question.ask(),
            Unanswered::Units(units) => self.question.charge(units.min(Cost::MAX.get())),
        }
    }

    fn told(&self, answer: Answer) -> Option<ReadyFields> {
        match answer {
            Ok((decision, fields)) => Some(self.question.fields_of(&decision, fields.as_ref())),
            // The response is there and goes out; who observes the limit is told of the failure.
            Err(error) => {
                let limit = self.rules.gate.name();
                tracing::warn!(limit, %error, "a request could not be charged");
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
