//! Charging after the response.

use std::sync::Arc;

use sluicegate_core::{Cost, Operation};
use sluicegate_http::PreparedFields;

use super::question::{Answer, Question};
use super::response_view::ResponseView;
use super::rules::{Rules, Unanswered};
use crate::ask::Ask;
use crate::registry::fields;

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
    units: u64,
}

impl Due {
    pub(super) fn new(rules: Arc<Rules>, question: Question) -> Self {
        Self { open: Some(Box::new(Open { rules, question })) }
    }

    /// Charges for the response, immediately if the store can.
    pub(super) fn settle(mut self, response: &dyn ResponseView) -> Settled {
        // If the function panics, the charge stays due.
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
    /// Charges, and returns the new response fields.
    pub(super) async fn done(self) -> Option<PreparedFields> {
        self.open.charge(&self.open.question.charge(self.units)).await
    }
}

impl Open {
    fn charge_at_once(&self, ask: &Ask<'_>) -> Option<Option<PreparedFields>> {
        Some(self.told(self.rules.gate.look().ask_at_once(Operation::Charge, ask)?))
    }

    async fn charge(&self, ask: &Ask<'_>) -> Option<PreparedFields> {
        self.told(self.rules.gate.ask_and_tell(Operation::Charge, ask, fields).await)
    }

    /// Charges in the background: a store over a network is asked in a new task.
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

    fn told(&self, answer: Answer) -> Option<PreparedFields> {
        match answer {
            Ok((decision, fields)) => Some(self.question.fields_of(&decision, fields.as_ref())),
            // The response is sent anyway; observers of the limit see the failure.
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
