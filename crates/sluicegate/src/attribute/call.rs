//! One call of a limited function.

use std::future::Future;
use std::time::Duration;

use sluicegate_core::{Decision, Error, Operation, RequestError, RequestErrorKind};
use sluicegate_http::Key as HttpKey;
use tokio::time::Instant;

use super::held::Held;
use super::installed;
use super::key::Key;
use super::opened::{Holding, Owner};
use crate::ask::Ask;
use crate::blocking;
use crate::denied::{Denied, is_denial_charged};
use crate::pause_on;
use crate::permit::Terms;
use crate::question::{Question, Target as _, Verb};
use crate::registry::Gate;
use crate::store_health::log_unseen;
use crate::timer::sleep_until;

/// One call of a limited function: its limits, and how to ask them.
#[derive(Debug)]
pub struct Call {
    opened: Holding,
    within: Option<Duration>,
    is_enforced: bool,
    /// Whether the call holds its units until it has returned, regardless of its limits.
    is_held: bool,
    terms: Terms,
}

/// The result of asking without waiting.
#[derive(Debug)]
#[must_use]
pub enum Answer {
    /// The call passes or is denied.
    Settled(Option<Denied>),
    /// The call passes after this wait.
    Turn(Duration),
    /// Nothing was sent, because the store has to be awaited.
    Unasked,
}

/// The result of asking before the call, for one that is charged after it.
#[derive(Debug)]
#[must_use]
pub struct Peeked {
    /// The denial.
    pub denied: Option<Denied>,
    /// Whether the charge must still be made. A call that was denied at first, and passed when the limit was asked to
    /// charge the denial, has already taken the cost.
    pub is_due: bool,
}

/// The units that a call took, to be given back at most once.
#[derive(Debug)]
#[must_use]
pub struct Taken(Option<Decision>);

impl Taken {
    /// Returns the value of a call that asked no limit, or was denied.
    pub const fn nothing() -> Self {
        Self(None)
    }
}

impl Key {
    /// Builds the request of a call.
    #[inline]
    pub fn ask<'a>(&'a self, call: &'a Call, terms: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Ask<'a> {
        self.ask_with(call.method(), terms)
    }
}

impl Call {
    #[inline]
    pub(super) const fn new(opened: Holding) -> Self {
        Self {
            opened,
            within: None,
            is_enforced: true,
            is_held: false,
            terms: Terms { lasts: None, max_life: Duration::from_secs(3_600) },
        }
    }

    /// Sets the maximum wait for the call's turn.
    #[must_use]
    pub const fn waiting(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// Makes the call hold its units until it has returned. Without a renewal the hold lasts for `lasts`.
    #[must_use]
    pub fn holding(mut self, lasts: Option<Duration>) -> Self {
        self.is_held = true;
        self.terms.lasts = lasts;
        self
    }

    /// Makes the call a shadow: its answer is dropped.
    #[must_use]
    pub const fn unenforced(mut self) -> Self {
        self.within = None;
        self.is_enforced = false;
        self
    }

    #[inline]
    pub(super) fn method(&self) -> &HttpKey {
        &self.opened.method
    }

    /// Returns the answer if the keys alone decide it; `None` if the limits have to be asked.
    #[inline]
    #[must_use]
    pub fn ready(&self, keys: &[&Key]) -> Option<Option<Denied>> {
        if let Some(index) = keys.iter().position(|key| key.is_refused()) {
            let name = self.opened.names.get(index).map_or("", String::as_str);
            return Some(Some(Denied::no_key(name)));
        }
        keys.iter().all(|key| key.is_skipped()).then_some(None)
    }

    /// Sends the request if the store can answer immediately.
    #[inline]
    pub fn at_once(&self, ask: Ask<'_>) -> Answer {
        if self.within.is_some() || self.holds() {
            return Answer::Unasked;
        }
        match self.opened.gate.check(ask).at_once() {
            None => Answer::Unasked,
            Some(Ok(decision)) if decision.is_allowed() && decision.wait().is_zero() => {
                Answer::Settled(None)
            }
            Some(answer) => self.look_at(answer),
        }
    }

    /// Sends the request or waits for the turn, without a time limit of its own.
    pub async fn settle<'a>(&'a self, answer: Answer, ask: Ask<'a>) -> (Option<Denied>, Held) {
        if self.holds() {
            return self.hold(ask).await;
        }
        (self.ask(answer, ask).await, Held::nothing())
    }

    async fn ask<'a>(&'a self, answer: Answer, ask: Ask<'a>) -> Option<Denied> {
        let gate = &self.opened.gate;
        let answer = match (answer, self.within) {
            (Answer::Unasked, Some(within)) => {
                return self.denied(gate.check(ask).within(within).await);
            }
            (Answer::Unasked, None) => self.look_at(gate.check(ask).await),
            (answer, _) => answer,
        };
        turn(answer).await
    }

    /// Works like [`Call::settle`], in a function that is not async.
    pub fn settle_blocking<'a>(&'a self, answer: Answer, ask: Ask<'a>) -> (Option<Denied>, Held) {
        if self.holds() {
            return self.hold_blocking(&ask);
        }
        (self.ask_blocking(answer, ask), Held::nothing())
    }

    /// Returns whether it holds its units until it has returned.
    #[inline]
    fn holds(&self) -> bool {
        self.is_held || self.opened.gate.has_permits()
    }

    /// Takes units, waits for the turn, and holds the units.
    async fn hold<'a>(&'a self, ask: Ask<'a>) -> (Option<Denied>, Held) {
        let within = self.within.unwrap_or_default();
        let gate = &self.opened.gate;
        match gate.permit(ask).terms(self.terms).within(within).await {
            Ok(permit) => {
                let (decision, held) = permit.into_held();
                (turn(self.look_at(Ok(decision))).await, Held::new(held))
            }
            Err(error) => (Some(self.failed(error)), Held::nothing()),
        }
    }

    /// Takes and holds units in a function that is not async. A thread that the function doesn't block renews the hold.
    fn hold_blocking(&self, ask: &Ask<'_>) -> (Option<Denied>, Held) {
        let permit = || self.opened.gate.permit(ask.clone()).terms(self.terms);
        let at_once = || {
            let _entered = blocking::enter();
            permit().at_once()
        };
        let answer = match self.within.is_none().then(at_once).flatten() {
            Some(answer) => answer,
            None => {
                let within = self.within.unwrap_or_default();
                block_on(permit().within(within))
            }
        };
        match answer {
            Ok(permit) => {
                let (decision, held) = permit.into_held();
                (self.turn_blocking(self.look_at(Ok(decision))), Held::new(held))
            }
            Err(error) => (Some(self.failed(error)), Held::nothing()),
        }
    }

    fn ask_blocking<'a>(&'a self, answer: Answer, ask: Ask<'a>) -> Option<Denied> {
        let gate = &self.opened.gate;
        let answer = match (answer, self.within) {
            (Answer::Unasked, Some(within)) => {
                return self.denied(block_on(gate.check(ask).within(within)));
            }
            (Answer::Unasked, None) => self.look_at(block_on(gate.check(ask).later())),
            (answer, _) => answer,
        };
        self.turn_blocking(answer)
    }

    /// Returns whether the call would be denied. If not, waits for the turn it would get. Until one of them is charged,
    /// other calls may get the same turn.
    pub async fn peek<'a>(&'a self, ask: Ask<'a>) -> Peeked {
        let gate = &self.opened.gate;
        let mut answer = gate.peek(ask.clone()).await;
        let is_charged = answer.as_ref().is_ok_and(is_denial_charged);
        if is_charged {
            answer = gate.check(ask).await;
        }
        Peeked { denied: turn(self.look_at(answer)).await, is_due: !is_charged }
    }

    /// Works like [`Call::peek`], in a function that is not async.
    #[expect(clippy::needless_pass_by_value, reason = "generated code creates it for this call")]
    pub fn peek_blocking(&self, ask: Ask<'_>) -> Peeked {
        let mut answer = self.order_blocking(Operation::Peek, &ask);
        let is_charged = answer.as_ref().is_ok_and(is_denial_charged);
        if is_charged {
            answer = self.order_blocking(Operation::Check, &ask);
        }
        Peeked { denied: self.turn_blocking(self.look_at(answer)), is_due: !is_charged }
    }

    /// Charges for a call that was made. If the store fails, the charge is lost.
    pub async fn charge<'a>(&'a self, ask: Ask<'a>) {
        self.charged(self.opened.gate.charge(ask).await);
    }

    /// Works like [`Call::charge`], in a function that is not async.
    #[expect(clippy::needless_pass_by_value, reason = "generated code creates it for this call")]
    pub fn charge_blocking(&self, ask: Ask<'_>) {
        self.charged(self.order_blocking(Operation::Charge, &ask));
    }

    /// Takes the cost of a call that may give it back, and waits for the turn.
    pub async fn take<'a>(&'a self, ask: Ask<'a>) -> (Option<Denied>, Taken) {
        let gate = &self.opened.gate;
        let (answer, turn) = self.taken(match self.within {
            Some(within) => gate.check(ask).within(within).await,
            None => gate.check(ask).await,
        });
        if let Some(turn) = turn {
            sleep_until(Instant::now() + turn).await;
        }
        answer
    }

    /// Works like [`Call::take`], in a function that is not async.
    pub fn take_blocking(&self, ask: Ask<'_>) -> (Option<Denied>, Taken) {
        let (answer, turn) = self.taken(match self.within {
            Some(within) => block_on(self.opened.gate.check(ask).within(within)),
            None => self.order_blocking(Operation::Check, &ask),
        });
        match turn.and_then(|turn| self.turn_blocking(Answer::Turn(turn))) {
            Some(failed) => (Some(failed), Taken::nothing()),
            None => answer,
        }
    }

    /// Returns the denial or the units taken, and the call's wait for its turn.
    fn taken(
        &self,
        answer: Result<Decision, Error>,
    ) -> ((Option<Denied>, Taken), Option<Duration>) {
        match answer {
            Ok(decision) if decision.is_allowed() => {
                // A call with a maximum wait has already waited.
                let waits = self.is_enforced && self.within.is_none();
                let turn = Some(decision.wait()).filter(|wait| waits && !wait.is_zero());
                ((None, Taken(Some(decision))), turn)
            }
            Ok(decision) => ((Some(self.opened.gate.denied(decision)), Taken::nothing()), None),
            Err(error) => ((Some(self.failed(error)), Taken::nothing()), None),
        }
    }

    /// Gives back a call's units. If the store fails, they stay taken.
    pub async fn give_back<'a>(&'a self, ask: Ask<'a>, taken: Taken) {
        if let Taken(Some(taken)) = taken {
            self.given_back(self.opened.gate.refund(ask).taken_by(&taken).await);
        }
    }

    /// Works like [`Call::give_back`], in a function that is not async.
    pub fn give_back_blocking(&self, ask: Ask<'_>, taken: Taken) {
        let (gate, Taken(Some(taken))) = (&self.opened.gate, taken) else {
            return;
        };
        self.given_back(answer_blocking(gate.refund(ask).taken_by(&taken)));
    }

    /// Pauses the key of one of a call's limits. If the store fails, it isn't paused.
    pub async fn pause<'a>(&'a self, ask: Ask<'a>, index: usize, lasts: Duration) {
        let gate = &self.opened.gate;
        pause_on::log(gate.name(), &gate.pause(ask.only(index), lasts).await);
    }

    /// Works like [`Call::pause`], in a function that is not async.
    pub fn pause_blocking(&self, ask: Ask<'_>, index: usize, lasts: Duration) {
        let gate = &self.opened.gate;
        pause_on::log(gate.name(), &answer_blocking(gate.pause(ask.only(index), lasts)));
    }

    fn turn_blocking(&self, answer: Answer) -> Option<Denied> {
        match answer {
            Answer::Settled(denied) => denied,
            Answer::Turn(wait) => {
                let slept = block_on(async {
                    sleep_until(Instant::now() + wait).await;
                    Ok(())
                });
                slept.err().map(|error| self.failed(error))
            }
            Answer::Unasked => None,
        }
    }

    fn order_blocking(
        &self,
        operation: Operation<'static>,
        ask: &Ask<'_>,
    ) -> Result<Decision, Error> {
        answer_blocking(self.opened.gate.decide(operation, ask.clone()))
    }

    #[cold]
    fn look_at(&self, answer: Result<Decision, Error>) -> Answer {
        Answer::Settled(match answer {
            Ok(decision) if decision.is_allowed() => {
                let wait = decision.wait();
                if self.is_enforced && !wait.is_zero() {
                    return Answer::Turn(wait);
                }
                None
            }
            Ok(decision) => Some(self.opened.gate.denied(decision)),
            Err(error) => Some(self.failed(error)),
        })
    }

    fn denied(&self, answer: Result<Decision, Error>) -> Option<Denied> {
        match answer {
            Ok(decision) => decision.is_denied().then(|| self.opened.gate.denied(decision)),
            Err(error) => Some(self.failed(error)),
        }
    }

    fn charged(&self, answer: Result<Decision, Error>) {
        if let Err(error) = answer {
            let limit = Some(self.opened.gate.name());
            log_unseen(limit, &error, "the cost of a call could not be charged");
        }
    }

    fn given_back(&self, answer: Result<Decision, Error>) {
        if let Err(error) = answer {
            let limit = Some(self.opened.gate.name());
            log_unseen(limit, &error, "the units of a call could not be given back");
        }
    }

    #[cold]
    fn failed(&self, error: Error) -> Denied {
        let is_unknown = |error: &RequestError| error.kind() == RequestErrorKind::UnknownLimit;
        let error = match &self.opened.owner {
            // The registry that is used before one is installed knows no names.
            Owner::Installed(installed::NONE) if error.as_request().is_some_and(is_unknown) => {
                let message = format!(
                    "there is no limit called `{}`, because no registry is installed: call `sluicegate::install` before",
                    self.opened.gate.name().escape_debug()
                );
                RequestError::new(RequestErrorKind::UnknownLimit, message).into()
            }
            _ => error,
        };
        Denied::failed(self.opened.gate.name(), error)
    }
}

/// Waits for the turn of a call that passes.
async fn turn(answer: Answer) -> Option<Denied> {
    match answer {
        Answer::Settled(denied) => denied,
        Answer::Turn(wait) => {
            sleep_until(Instant::now() + wait).await;
            None
        }
        Answer::Unasked => None,
    }
}

/// Returns the answer. Blocks the thread if the store has to be awaited.
fn answer_blocking<V>(question: Question<'_, Gate, V>) -> Result<Decision, Error>
where
    V: Verb<Gate, Output = Decision, Error = Error>,
{
    question.at_once().unwrap_or_else(|| block_on(question.later()))
}

/// Blocks the thread until the store answers.
fn block_on<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    blocking::wait(answer)?
}
