//! What a middleware was told before it was put in place.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_core::{Cost, Operation, Span};
use sluicegate_http::{
    ClientAddress, FieldFormat, Key, KeyComponent, KeyExtractor, KeyOutcome, Missing, OnMissingKey,
    RequestView,
};
use smallvec::SmallVec;

use super::admission::Admission;
use super::due::Due;
use super::question::{Answer, Question};
use super::refusal::Refusal;
use super::response_view::ResponseView;
use super::verdict::{Pending, Verdict};
use crate::caller::Caller;
use crate::config::{HttpConfig, LimitConfig};
use crate::registry::{Gate, Look, MissingKey, Shown, ShownPartition, Switch, fields};

pub(super) type CostOf = Arc<dyn Fn(&dyn RequestView) -> u64 + Send + Sync>;
pub(super) type Predicate = Arc<dyn Fn(&dyn RequestView) -> bool + Send + Sync>;
pub(super) type ChargeOf = Arc<dyn Fn(&dyn ResponseView) -> Option<u64> + Send + Sync>;

/// What a middleware was told before it was put in place.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) gate: Gate,
    /// One for each limit of the gate.
    pub(super) terms: Vec<Terms>,
    /// The place of the first limit of the gate that was named last.
    pub(super) last: usize,
    pub(super) client_address: Option<ClientAddress>,
    pub(super) skip_if: Vec<Predicate>,
    pub(super) fields: Option<FieldFormat>,
    pub(super) charge_after: Option<ChargeOf>,
    pub(super) unanswered: Unanswered,
    pub(super) wait_up_to: Span,
    pub(super) caller: Switch,
    warned: Arc<AtomicBool>,
}

/// How one of the limits is asked.
#[derive(Clone, Default)]
pub(super) struct Terms {
    pub(super) key: KeySource,
    pub(super) on_missing_key: Option<OnMissingKey>,
    pub(super) cost: Option<CostOf>,
}

#[derive(Clone, Default)]
pub(super) enum KeySource {
    /// As the configuration says at the moment.
    #[default]
    Configured,
    Given(Arc<dyn KeyExtractor>),
}

/// What is charged afterwards for a request that gets no response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Unanswered {
    /// What it would have cost beforehand.
    #[default]
    AsAsked,
    Units(u64),
}

impl Rules {
    pub(super) fn new(gate: Gate) -> Self {
        let mut rules = Self {
            terms: vec![Terms::default(); gate.len()],
            last: 0,
            gate,
            client_address: None,
            skip_if: Vec::new(),
            fields: None,
            charge_after: None,
            unanswered: Unanswered::default(),
            wait_up_to: Span::ZERO,
            caller: Switch::On,
            warned: Arc::default(),
        };
        rules.show();
        rules
    }

    /// Tells the gate what its clients are to be told.
    pub(super) fn show(&mut self) {
        let partition = |terms: &Terms| match &terms.key {
            KeySource::Given(key) => ShownPartition::Given(key.partition()),
            KeySource::Configured => ShownPartition::Configured,
        };
        let partitions = self.terms.iter().map(partition).collect();
        self.gate = self.gate.showing(Shown { format: self.fields, partitions });
    }

    /// What happens to a request, as far as that can be told without waiting, by one look at the
    /// configuration.
    pub(super) fn decide(self: &Arc<Self>, request: &dyn RequestView) -> Verdict {
        let look = self.gate.look();
        if self.skip_if.iter().any(|skip| skip(request)) {
            let caller = self.caller_of(request, &look);
            return Verdict::Admit(Admission { caller, ..Admission::default() });
        }
        let question = match self.question(request, &look) {
            Ok(question) => question,
            Err(missing) => return Verdict::Refuse(Refusal::without_key(missing)),
        };
        let Some(answer) = self.ask_at_once(&question, &look) else {
            let caller = self.caller_of(request, &look);
            return Verdict::Wait(Pending::answer(Arc::clone(self), question, caller));
        };
        match self.admit(&question, answer) {
            Ok(mut admission) => {
                admission.caller = self.caller_of(request, &look);
                self.to_be_charged(&mut admission, question);
                if admission.wait.is_zero() {
                    Verdict::Admit(admission)
                } else {
                    Verdict::Wait(Pending::turn(admission))
                }
            }
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    /// What is asked about a request.
    fn question(&self, request: &dyn RequestView, look: &Look<'_>) -> Result<Question, MissingKey> {
        let http = look.http();
        let mut costs = SmallVec::new();
        let keys = look.keys_with(&mut |index, config| {
            let terms = self.terms.get(index);
            let cost = terms.and_then(|terms| terms.cost.as_ref());
            let cost = cost.map(|cost| cost(request).min(Cost::MAX.get()));
            if cost.is_some() {
                costs.resize(index, None);
                costs.push(cost);
            }
            // What costs nothing is not asked about.
            if cost == Some(0) {
                return KeyOutcome::Skip;
            }
            let key = self.make_key(index, config, http, request);
            if let Err(missing) = &key {
                self.note(missing);
            }
            let otherwise = terms.and_then(|terms| terms.on_missing_key);
            otherwise.unwrap_or(config.missing_key).resolve(key)
        })?;
        Ok(Question::new(keys, costs))
    }

    fn make_key(
        &self,
        index: usize,
        config: &LimitConfig,
        http: &HttpConfig,
        request: &dyn RequestView,
    ) -> Result<Key, Missing> {
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

    /// Limiting everybody together is rarely meant when nobody has an address.
    fn note(&self, missing: &Missing) {
        if missing.component == KeyComponent::Ip && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit = self.gate.name(),
                "requests come without the address of their peer, so clients can't be told apart: serve the router with `into_make_service_with_connect_info` (axum), or put a `sluicegate::http::Peer` into each request's extensions"
            );
        }
    }

    /// The answer, if the store has one at once.
    fn ask_at_once(&self, question: &Question, look: &Look<'_>) -> Option<Answer> {
        if self.charge_after.is_some() {
            look.ask_at_once(Operation::Peek, &question.ask())
        } else if self.queues() {
            None
        } else {
            look.ask_at_once(Operation::Check, &question.ask())
        }
    }

    /// The answer, however long it takes.
    async fn ask(&self, question: &Question) -> Answer {
        let ask = question.ask();
        if self.charge_after.is_some() {
            self.gate.ask_and_tell(Operation::Peek, &ask, fields).await
        } else if self.queues() {
            self.gate.acquire_and_tell(&ask, self.wait_up_to, fields).await
        } else {
            self.gate.ask_and_tell(Operation::Check, &ask, fields).await
        }
    }

    /// Whether requests wait for their turn before they are admitted: not those that are charged
    /// afterwards, which have no turn.
    fn queues(&self) -> bool {
        !self.wait_up_to.is_zero() && self.charge_after.is_none()
    }

    /// What follows from the answer.
    fn admit(&self, question: &Question, answer: Answer) -> Result<Admission, Refusal> {
        let (decision, fields) = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(Refusal::failed(self.gate.name(), error)),
        };
        let fields = question.fields_of(&decision, fields.as_ref());
        if decision.is_denied() {
            return Err(Refusal::of_decision(decision, fields));
        }
        // Who waited in the queue has waited.
        let wait = if self.queues() { Span::ZERO } else { decision.wait() };
        Ok(Admission { fields, wait, ..Admission::default() })
    }

    /// The admission is charged when the response is there, if that was said.
    fn to_be_charged(self: &Arc<Self>, admission: &mut Admission, question: Question) {
        if self.charge_after.is_some() {
            admission.due = Some(Due::new(Arc::clone(self), question));
        }
    }

    /// Asks, and waits for what is to be waited for.
    pub(super) async fn wait_for(
        self: Arc<Self>,
        question: Question,
    ) -> Result<Admission, Refusal> {
        let answer = self.ask(&question).await;
        let mut admission = self.admit(&question, answer)?;
        self.to_be_charged(&mut admission, question);
        Ok(admission.waited().await)
    }

    /// What the handler's answer costs, if it costs anything.
    pub(super) fn charge_of(&self, response: &dyn ResponseView) -> Option<u64> {
        let units = self.charge_after.as_ref()?(response)?;
        (units > 0).then(|| units.min(Cost::MAX.get()))
    }

    /// Whom the handler runs for, if anybody wants to know.
    fn caller_of(&self, request: &dyn RequestView, look: &Look<'_>) -> Option<Caller> {
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

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("gate", &self.gate).finish_non_exhaustive()
    }
}
