//! The decision of a middleware.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_core::{Decision, Error, Operation, RequestError, RequestErrorKind};
use sluicegate_http::{
    Key, KeyComponent, KeyOutcome, MissingComponent, PreparedFields, RequestView,
};
use smallvec::SmallVec;

use super::admission::Admission;
use super::after_response::{AfterResponse, Taken};
use super::asks::{Asking, Question, fields_of};
use super::choice::Chooser;
use super::in_flight::InFlight;
use super::refusal::Refusal;
use super::rules::{KeySource, Rules};
use super::tail::Tail;
use super::verdict::{Pending, Verdict};
use crate::caller::Caller;
use crate::config_file::{HttpConfig, LimitConfig, Switch};
use crate::denied::is_denial_charged;
use crate::permit::Permit;
use crate::registry::{Look, MissingKey};

impl Rules {
    /// Returns the verdict on a request. It is pending if the store or the choice of the limits has to be awaited.
    pub(super) fn decide(self: &Arc<Self>, request: &dyn RequestView) -> Verdict {
        match &self.chooser {
            Some(chooser) if !self.skips(request) => self.choose(chooser, request),
            _ => self.ask_gate(request),
        }
    }

    /// Returns the verdict of the limits that are chosen for a request.
    fn choose(
        self: &Arc<Self>,
        chooser: &Chooser<Arc<Self>>,
        request: &dyn RequestView,
    ) -> Verdict {
        let (rules, chosen) = (Arc::clone(self), (chooser.choose)(request));
        let choosing = async move {
            chosen.await.map_err(|error| {
                if let Some(chooser) = &rules.chooser {
                    chooser.tell(&error);
                }
                Refusal::unchosen(error)
            })
        };
        let rules = Arc::clone(self);
        let mut pending = Pending::choosing(choosing, move |gate, request| {
            let of_gate = rules.chooser.as_ref().map(|chooser| {
                chooser.by_gate.get_or_make(gate, |gate| Arc::new(rules.for_gate(gate)))
            });
            of_gate.unwrap_or(rules).ask_gate(request)
        });
        // A choice that isn't awaited is one with an immediate verdict. A pending one is polled again with its waker.
        match pending.poll(request, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(admission)) => Verdict::Admit(admission),
            Poll::Ready(Err(refusal)) => Verdict::Refuse(refusal),
            Poll::Pending => Verdict::Wait(pending),
        }
    }

    /// Returns the verdict of the gate on a request, by one snapshot of the configuration.
    fn ask_gate(self: &Arc<Self>, request: &dyn RequestView) -> Verdict {
        let look = self.gate.look();
        if self.skips(request) {
            let caller = self.caller_of(request, &look);
            return Verdict::Admit(Admission { caller, ..Admission::default() });
        }
        let question = match self.question(request, &look) {
            Ok(question) => question,
            Err(missing) => return Verdict::Refuse(Refusal::without_key(missing)),
        };
        let Some(answer) = self.ask_at_once(&question, &look) else {
            let caller = self.caller_of(request, &look);
            let rules = Arc::clone(self);
            return Verdict::Wait(Pending::new(async move {
                let mut admission = rules.wait_for(question).await?;
                admission.caller = caller;
                Ok(admission)
            }));
        };
        match answer {
            Ok(passed) => {
                let mut admission = self.admission(passed, question);
                admission.caller = self.caller_of(request, &look);
                if admission.wait.is_zero() {
                    Verdict::Admit(admission)
                } else {
                    Verdict::Wait(Pending::new(async move { Ok(admission.waited().await) }))
                }
            }
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    fn skips(&self, request: &dyn RequestView) -> bool {
        self.skip_if.iter().any(|skip| skip(request))
    }

    /// Returns the keys and costs of a request.
    fn question(&self, request: &dyn RequestView, look: &Look) -> Result<Question, MissingKey> {
        let http = look.http();
        let mut costs = SmallVec::new();
        let keys = look.keys_with(&mut |index, config| {
            let terms = self.terms.get(index);
            let cost = terms.and_then(|terms| terms.cost.as_ref());
            if let Some(cost) = cost.map(|cost| cost(request)) {
                // With a cost of 0 the limit is not asked.
                if cost.asks_nothing() {
                    return KeyOutcome::Skip;
                }
                costs.resize(index, None);
                costs.push(Some(cost));
            }
            let key = self.make_key(index, config, http, request);
            if let Err(missing) = &key {
                self.note(missing);
            }
            let otherwise = terms.and_then(|terms| terms.on_missing_key);
            otherwise.unwrap_or(config.missing_key).resolve(key)
        })?;
        let priority = self.priority.as_ref().map_or(0, |priority| priority(request));
        Ok(Question::new(keys, costs, priority))
    }

    fn make_key(
        &self,
        index: usize,
        config: &LimitConfig,
        http: &HttpConfig,
        request: &dyn RequestView,
    ) -> Result<Key, MissingComponent> {
        let told = self.client_address.as_ref();
        match self.terms.get(index).map(|terms| &terms.key) {
            Some(KeySource::Given(key)) => {
                key.key_with_address(request, told.unwrap_or(&http.client_address))
            }
            _ => {
                let address = told.or_else(|| config.key.client_address());
                config.key.key_found_by(request, address.unwrap_or(&http.client_address))
            }
        }
    }

    /// Warns if requests have no address, since a limit on all clients together is rarely intended.
    fn note(&self, missing: &MissingComponent) {
        if missing.component == KeyComponent::Ip && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit = self.gate.name(),
                "requests have no peer address, so all clients share a key: serve with `into_make_service_with_connect_info` (axum), or put a `sluicegate::http::Peer` into the extensions"
            );
        }
    }

    /// Returns how the request passes, if the store answers immediately.
    fn ask_at_once(&self, question: &Question, look: &Look) -> Option<Result<Passed, Refusal>> {
        if self.queues() {
            return None;
        }
        if self.holds(look.has_permits()) {
            let answer = match self.refuse_to_hold() {
                Ok(()) => self.gate.permit(question.ask()).terms(self.permit_terms()).at_once()?,
                Err(error) => Err(error),
            };
            return Some(self.held(question, answer));
        }
        let (operation, asking) = self.first();
        let answer = self.gate.decide(operation, asking(question)).at_once()?;
        let Some(asking_next) = self.second(question, &answer) else {
            return Some(self.passed(asking, question, answer));
        };
        let wait = wait_of(&answer);
        let answer = self.gate.check(asking_next(question)).at_once()?;
        let passed = self.passed(asking_next, question, answer);
        Some(passed.map(|passed| passed.waiting(wait)))
    }

    /// Returns how the request passes, without a time limit of its own.
    async fn ask(&self, question: &Question) -> Result<Passed, Refusal> {
        if self.holds(self.gate.has_permits()) {
            return self.hold_for(question).await;
        }
        if self.queues() {
            // Without a free place it passes or is refused immediately.
            let place = self.places.try_acquire().ok();
            let longest = if place.is_some() { self.wait_up_to } else { Duration::ZERO };
            let answer = self.gate.check(question.ask()).within(longest).await;
            return self.passed(Question::ask, question, answer);
        }
        let (operation, asking) = self.first();
        let answer = self.gate.decide(operation, asking(question)).await;
        let Some(asking_next) = self.second(question, &answer) else {
            return self.passed(asking, question, answer);
        };
        let wait = wait_of(&answer);
        let answer = self.gate.check(asking_next(question)).await;
        let passed = self.passed(asking_next, question, answer);
        passed.map(|passed| passed.waiting(wait))
    }

    /// Returns how a request with a hold passes, without a time limit of its own.
    async fn hold_for(&self, question: &Question) -> Result<Passed, Refusal> {
        let place = self.queues().then(|| self.places.try_acquire().ok()).flatten();
        let longest = if place.is_some() { self.wait_up_to } else { Duration::ZERO };
        let answer = match self.refuse_to_hold() {
            Ok(()) => {
                let terms = self.permit_terms();
                self.gate.permit(question.ask()).terms(terms).within(longest).await
            }
            Err(error) => Err(error),
        };
        self.held(question, answer)
    }

    /// Returns how a request with a hold passes.
    fn held(&self, question: &Question, answer: Result<Permit, Error>) -> Result<Passed, Refusal> {
        let permit = answer.map_err(|error| Refusal::failed(self.gate.name(), error))?;
        let fields = fields_of(&self.gate, &permit, || question.ask());
        if permit.is_denied() {
            return Err(Refusal::of_decision(permit.into_decision(), fields));
        }
        Ok(Passed { fields, wait: permit.wait(), taken: None, permit: Some(permit) })
    }

    /// Refuses to combine holds with other settings: a hold is settled only by usage.
    fn refuse_to_hold(&self) -> Result<(), Error> {
        if self.refund_if.is_none() && self.charge_after.is_none() {
            return Ok(());
        }
        let message = format!(
            "requests hold units of `{}`: report the usage by `settle` or `settle_at_end`, not by `refund_if` or `charge_after`",
            self.gate.name()
        );
        Err(RequestError::new(RequestErrorKind::Unsupported, message).into())
    }

    /// Returns the first request: for the cost, or whether a request that is charged after its response would pass.
    fn first(&self) -> (Operation<'static>, Asking) {
        match self.charge_after {
            None => (Operation::Check, Question::ask),
            Some(_) => (Operation::Peek, Question::ask_ahead),
        }
    }

    /// Returns the next request, if any, for a request that is charged after its response. The first one asks whether
    /// it would pass, so that a denied request takes nothing.
    fn second(&self, question: &Question, first: &Result<Decision, Error>) -> Option<Asking> {
        let (Some(_), Ok(decision)) = (&self.charge_after, first) else {
            return None;
        };
        if decision.is_allowed() {
            return question.takes_ahead().then_some(Question::take_ahead);
        }
        // If it passes by now, it is charged before and after the response.
        is_denial_charged(decision).then_some(Question::ask_ahead)
    }

    /// Returns whether requests wait for their turn. Requests that are charged after the response have no turn.
    fn queues(&self) -> bool {
        !self.wait_up_to.is_zero() && self.charge_after.is_none()
    }

    /// Returns how a request passes according to the answer.
    fn passed(
        &self,
        asking: Asking,
        question: &Question,
        answer: Result<Decision, Error>,
    ) -> Result<Passed, Refusal> {
        let wait = wait_of(&answer);
        let decision = answer.map_err(|error| Refusal::failed(self.gate.name(), error))?;
        let fields = fields_of(&self.gate, &decision, || asking(question));
        if decision.is_denied() {
            return Err(Refusal::of_decision(decision, fields));
        }
        // The request has already waited in the queue.
        let wait = if self.queues() { Duration::ZERO } else { wait };
        let gives_back = self.refund_if.is_some() && decision.taken_at().is_some();
        let taken = gives_back.then_some(Taken { asking, decision });
        Ok(Passed { fields, wait, taken, permit: None })
    }

    /// Returns the admission of a request that passes, with the work after its response.
    fn admission(self: &Arc<Self>, passed: Passed, question: Question) -> Admission {
        let Passed { fields, wait, taken, permit } = passed;
        let is_due = self.charge_after.is_some() || self.may_pause() || taken.is_some();
        let due = is_due.then(|| AfterResponse::new(Arc::clone(self), question, taken));
        let tail = permit.map_or_else(Tail::default, |permit| {
            Tail::new(InFlight::new(permit), Arc::clone(self))
        });
        Admission { caller: None, fields, wait, due, tail }
    }

    /// Sends the request, and awaits the store and the request's turn.
    async fn wait_for(self: Arc<Self>, question: Question) -> Result<Admission, Refusal> {
        let passed = self.ask(&question).await?;
        Ok(self.admission(passed, question).waited().await)
    }

    /// Returns the caller of the handler, unless switched off.
    fn caller_of(&self, request: &dyn RequestView, look: &Look) -> Option<Caller> {
        if self.caller == Switch::Off {
            return None;
        }
        let mut caller = Caller::new();
        let address = self.client_address.as_ref().unwrap_or(&look.http().client_address);
        if let Some(network) = address.network(request) {
            caller = caller.with_network(network);
        }
        if let Some(user) = request.user() {
            caller = caller.with_user(user.clone());
        }
        Some(caller)
    }
}

/// The terms on which a request passes.
struct Passed {
    fields: PreparedFields,
    wait: Duration,
    /// The units that may be given back after the response.
    taken: Option<Taken>,
    /// The hold until the body has ended.
    permit: Option<Permit>,
}

impl Passed {
    /// Raises the wait to at least this long.
    fn waiting(mut self, wait: Duration) -> Self {
        self.wait = self.wait.max(wait);
        self
    }
}

/// Returns the wait of an admitted request before it is served.
fn wait_of(answer: &Result<Decision, Error>) -> Duration {
    answer.as_ref().map_or(Duration::ZERO, Decision::wait)
}
