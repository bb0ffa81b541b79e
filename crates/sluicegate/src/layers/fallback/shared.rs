//! State that all limits of a fallback share.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::{Clock, Decision, Measure, NodeId, OpenedLimit, Source, StoreError, StoreId};
use sluicegate_memory::MemoryStore;

use super::Processes;
use super::absence::Absences;
use super::census::Census;
use super::debts::Debts;
use super::event::{FallbackChange, FallbackEvent, OnChange};

pub(super) struct Shared<L> {
    pub(super) store: StoreId,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) on_change: Option<Arc<OnChange>>,
    pub(super) processes: Processes,
    pub(super) census: Option<Arc<Census<L>>>,
    pub(super) memory: MemoryStore,
    pub(super) debts: Arc<Debts>,
    pub(super) absences: Absences,
    pub(super) counts: Counts,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) allowed: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) charged: AtomicU64,
    pub(super) uncertain: AtomicU64,
}

impl<L> Shared<L> {
    pub(super) fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    pub(super) fn local_now(&self) -> u64 {
        self.memory.now().as_micros()
    }

    /// Notes that a call to a node failed, and that the request was decided locally.
    pub(super) fn failed(&self, node: Option<NodeId>, processes: NonZeroU16, error: &StoreError) {
        if self.absences.fail(node, self.now()) {
            let because = error.clone();
            self.tell(node, FallbackChange::Entered { because, processes });
        }
    }

    /// Notes that a decision came from the store.
    #[inline]
    pub(super) fn heard(&self, nodes: impl FnOnce() -> Vec<NodeId>, decision: &Decision) {
        if decision.source() == Source::Store && self.absences.is_any() {
            self.heard_of(nodes());
        }
    }

    #[cold]
    fn heard_of(&self, nodes: Vec<NodeId>) {
        let whole = nodes.is_empty().then_some(None);
        for node in nodes.into_iter().map(Some).chain(whole) {
            if let Some(after) = self.absences.answer(node, self.now()) {
                let after = Duration::from_micros(after);
                self.tell(node, FallbackChange::Left { after });
            }
        }
    }

    #[cold]
    fn tell(&self, node: Option<NodeId>, change: FallbackChange) {
        let event = FallbackEvent { store: self.store.clone(), node, change };
        match &event.change {
            FallbackChange::Entered { .. } => tracing::warn!("{event}"),
            FallbackChange::Left { .. } => tracing::info!("{event}"),
        }
        if let Some(tell) = &self.on_change {
            tell(&event);
        }
    }
}

impl<L: OpenedLimit> Shared<L> {
    /// Returns the number of processes that share the limits, if it is known.
    pub(super) fn processes(&self) -> Option<NonZeroU16> {
        match self.processes {
            Processes::Number(number) => Some(number),
            Processes::Counted => self.census.as_ref()?.count(),
        }
    }

    pub(super) fn measures(&self) -> Vec<Measure> {
        let Counts { allowed, denied, charged, uncertain } = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let of = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let help = "Requests that the local limiter decided while the store failed";
        let answers = |allowed: &str, count| {
            Measure::counter("fallback_answers", help, read(count)).label("allowed", allowed)
        };
        let help = "Keys whose locally counted units were charged to the store, by whether it confirmed the charge";
        let charges = |outcome: &str, count| {
            Measure::counter("fallback_charges", help, read(count)).label("outcome", outcome)
        };
        let help = "Stores, or nodes of one, that a local limiter replaces now";
        let away = Measure::gauge("fallback_active", help, of(self.absences.count()));
        let help = "Keys with pending charges to the store";
        let owing = Measure::gauge("fallback_owing_keys", help, of(self.debts.count()));
        let help = "Processes that share the limits, 0 if unknown";
        let processes = self.processes().map_or(0, |number| number.get().into());
        let processes = Measure::gauge("fallback_processes", help, processes);
        vec![
            answers("true", allowed),
            answers("false", denied),
            charges("charged", charged),
            charges("unknown", uncertain),
            away,
            owing,
            processes,
        ]
    }
}
