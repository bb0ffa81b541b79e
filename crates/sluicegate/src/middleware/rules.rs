//! The settings of a middleware.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sluicegate_http::{ClientAddress, FieldFormat, KeyExtractor, OnMissingKey, RequestView};
use sluicegate_memory::MemoryStore;
use smallvec::SmallVec;
use tokio::sync::Semaphore;

use super::asks::Charges;
use super::charge::Charge;
use super::choice::{Choice, Chooser};
use super::response_view::ResponseView;
use super::served::Served;
use crate::config::Switch;
use crate::pause_on;
use crate::permit::Terms as PermitTerms;
use crate::registry::{Gate, Registry, Shown, ShownPartition};

pub(super) type CostOf = Arc<dyn Fn(&dyn RequestView) -> Charge + Send + Sync>;
pub(super) type PriorityOf = Arc<dyn Fn(&dyn RequestView) -> u8 + Send + Sync>;
pub(super) type Predicate = Arc<dyn Fn(&dyn RequestView) -> bool + Send + Sync>;
pub(super) type ChargeOf = Arc<dyn Fn(&dyn ResponseView) -> Charge + Send + Sync>;
pub(super) type SettleBy = Arc<dyn Fn(&dyn ResponseView) -> Option<Charge> + Send + Sync>;
pub(super) type SettleAtEnd = Arc<dyn Fn(&Served) -> Option<Charge> + Send + Sync>;
pub(super) type PauseOn = Arc<dyn Fn(&dyn ResponseView) -> Option<Duration> + Send + Sync>;
pub(super) type RefundIf = Arc<dyn Fn(&dyn ResponseView) -> bool + Send + Sync>;

/// Pauses of keys: the index of the limit, and the length.
pub(super) type Pauses = SmallVec<[(usize, Duration); 1]>;

/// The settings of a middleware.
#[derive(Clone)]
pub(super) struct Rules {
    /// Without limits, if they are chosen for each request.
    pub(super) gate: Gate,
    pub(super) chooser: Option<Chooser<Arc<Self>>>,
    /// One per limit of the gate.
    pub(super) terms: Vec<Terms>,
    /// The index of the first limit of the gate that was added last.
    pub(super) last: usize,
    pub(super) client_address: Option<ClientAddress>,
    pub(super) skip_if: Vec<Predicate>,
    pub(super) fields: Option<FieldFormat>,
    pub(super) refund_if: Option<RefundIf>,
    pub(super) charge_after: Option<ChargeOf>,
    pub(super) unanswered: Unanswered,
    /// Duration of a request's hold before it is renewed.
    pub(super) hold: Option<Duration>,
    pub(super) max_life: Option<Duration>,
    pub(super) settle: Option<SettleBy>,
    pub(super) settle_at_end: Option<SettleAtEnd>,
    pub(super) wait_up_to: Duration,
    /// The priority of requests that wait for permits.
    pub(super) priority: Option<PriorityOf>,
    /// One permit per request that may wait for its turn.
    pub(super) places: Arc<Semaphore>,
    pub(super) caller: Switch,
    pub(super) warned: Arc<AtomicBool>,
}

/// The request settings for one of the limits.
#[derive(Clone, Default)]
pub(super) struct Terms {
    pub(super) key: KeySource,
    pub(super) on_missing_key: Option<OnMissingKey>,
    pub(super) cost: Option<CostOf>,
    pub(super) pause_on: Option<PauseOn>,
}

#[derive(Clone, Default)]
pub(super) enum KeySource {
    /// From the current configuration.
    #[default]
    Configured,
    Given(Arc<dyn KeyExtractor>),
}

/// The cost of a request that gets no response, when charging comes after it.
#[derive(Clone, Debug, Default)]
pub(super) enum Unanswered {
    /// The cost that the request would have had beforehand.
    #[default]
    AsAsked,
    Charge(Charges),
}

impl Rules {
    pub(super) fn new(gate: Gate) -> Self {
        gate.notice(&[]);
        let mut rules = Self {
            terms: vec![Terms::default(); gate.len()],
            last: 0,
            gate,
            chooser: None,
            client_address: None,
            skip_if: Vec::new(),
            fields: None,
            refund_if: None,
            charge_after: None,
            unanswered: Unanswered::default(),
            hold: None,
            max_life: None,
            settle: None,
            settle_at_end: None,
            wait_up_to: Duration::ZERO,
            priority: None,
            places: Self::places(10_000),
            caller: Switch::On,
            warned: Arc::default(),
        };
        rules.show();
        rules
    }

    pub(super) fn by<C: Choice>(
        choose: impl Fn(&dyn RequestView) -> C + Send + Sync + 'static,
    ) -> Self {
        let nowhere = Registry::builder(MemoryStore::new()).build().gate("chosen");
        Self { chooser: Some(Chooser::new(choose)), ..Self::new(nowhere) }
    }

    /// Returns these settings for a gate that was chosen.
    pub(super) fn for_gate(&self, gate: &Gate) -> Self {
        gate.notice(&[]);
        let terms = self.terms.first().cloned().unwrap_or_default();
        let terms = vec![terms; gate.len()];
        let mut rules = Self { gate: gate.clone(), terms, chooser: None, ..self.clone() };
        rules.show();
        rules
    }

    pub(super) fn places(requests: usize) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(requests.min(Semaphore::MAX_PERMITS)))
    }

    /// Updates the response fields in the gate.
    pub(super) fn show(&mut self) {
        let partition = |terms: &Terms| match &terms.key {
            KeySource::Given(key) => ShownPartition::Given(key.partition()),
            KeySource::Configured => ShownPartition::Configured,
        };
        let partitions = self.terms.iter().map(partition).collect();
        self.gate = self.gate.showing(Shown { format: self.fields, partitions });
    }

    /// Returns whether a request holds its units until its response has ended.
    pub(super) fn holds(&self, has_permits: bool) -> bool {
        let settles = self.settle.is_some() || self.settle_at_end.is_some();
        has_permits || settles || self.hold.is_some()
    }

    /// Returns the terms of a request's hold.
    pub(super) fn permit_terms(&self) -> PermitTerms {
        let terms = PermitTerms::default();
        PermitTerms { lasts: self.hold, max_life: self.max_life.unwrap_or(terms.max_life) }
    }

    /// Returns whether a response gives back the units of its request.
    pub(super) fn gives_back(&self, response: &dyn ResponseView) -> bool {
        self.refund_if.as_ref().is_some_and(|refund_if| refund_if(response))
    }

    /// Returns whether a response can pause a key.
    pub(super) fn may_pause(&self) -> bool {
        self.terms.iter().any(|terms| terms.pause_on.is_some())
    }

    /// Returns the limits whose keys a response pauses, by index, and for how long.
    pub(super) fn pauses_of(&self, response: &dyn ResponseView) -> Pauses {
        let pause = |terms: &Terms| pause_on::length(terms.pause_on.as_ref()?(response));
        let pauses = self.terms.iter().map(pause).enumerate();
        pauses.filter_map(|(index, lasts)| Some((index, lasts?))).collect()
    }

    /// Returns the charge of a response, if any.
    pub(super) fn charge_of(&self, response: &dyn ResponseView) -> Option<Charge> {
        let charge = self.charge_after.as_ref()?(response);
        (!charge.is_free()).then_some(charge)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("gate", &self.gate).finish_non_exhaustive()
    }
}
