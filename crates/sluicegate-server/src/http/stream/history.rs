//! The event `history`: the last 15 min in steps of 10 s.

use serde::Serialize;

use super::super::service::Service;
use crate::access::Caller;
use crate::activity::{Counts, MOST_STEPS, STEP_SECONDS, Step};

#[derive(Serialize)]
pub(super) struct History {
    step_ms: u64,
    whole: bool,
    steps: usize,
    series: Series,
}

#[derive(Default, Serialize)]
struct Series {
    allowed: Vec<u64>,
    denied: Vec<u64>,
    shadow_denied: Vec<u64>,
    decision_p50_us: Vec<Option<u64>>,
    decision_p99_us: Vec<Option<u64>>,
    store_p50_us: Vec<Option<u64>>,
    store_p99_us: Vec<Option<u64>>,
    store_up: Vec<Option<u8>>,
    breaker_open: Vec<Option<u8>>,
    keys: Vec<Option<u64>>,
    bytes: Vec<Option<u64>>,
    leased_units: Vec<u64>,
    processes: Vec<u64>,
}

/// The counts of a limit in the steps.
#[derive(Default, Serialize)]
pub(super) struct CountSeries {
    pub(super) allowed: Vec<u64>,
    pub(super) denied: Vec<u64>,
    pub(super) shadow_denied: Vec<u64>,
}

impl History {
    /// Returns the steps after the one with number `known`, or all without it, and the number of the last one.
    pub(super) fn after(known: Option<u64>, service: &Service, caller: &Caller) -> (Self, u64) {
        let (steps, last): (Vec<Step>, u64) = service.activity.totals(|totals| {
            let new = known.and_then(|known| totals.step.checked_sub(known));
            let new = new.and_then(|new| usize::try_from(new).ok());
            let count = new.unwrap_or(MOST_STEPS).min(totals.kept());
            (totals.steps(count).cloned().collect(), totals.step)
        });
        let whole = known
            .is_none_or(|known| last.checked_sub(known).is_none_or(|new| new > MOST_STEPS as u64));
        let own = (!caller.covers_all()).then(|| own_counts(service, caller, steps.len()));
        let mut series = Series::default();
        for (index, step) in steps.iter().enumerate() {
            let own = own.as_ref().map(|own| own.get(index).copied().unwrap_or_default());
            let Counts { allowed, denied, shadow_denied } = own.unwrap_or(step.counts);
            series.allowed.push(allowed);
            series.denied.push(denied);
            series.shadow_denied.push(shadow_denied);
            series.decision_p50_us.push(step.decision_us.map(|it| it.p50));
            series.decision_p99_us.push(step.decision_us.map(|it| it.p99));
            series.store_p50_us.push(step.store_us.map(|it| it.p50));
            series.store_p99_us.push(step.store_us.map(|it| it.p99));
            series.store_up.push(step.store_up.map(u8::from));
            series.breaker_open.push(step.breaker_open.map(u8::from));
            series.keys.push(step.keys);
            series.bytes.push(step.bytes);
            series.leased_units.push(step.leased_units);
            series.processes.push(step.processes);
        }
        (Self { step_ms: STEP_SECONDS * 1_000, whole, steps: steps.len(), series }, last)
    }
}

/// Returns the counts of the limits that a caller may see.
fn own_counts(service: &Service, caller: &Caller, count: usize) -> Vec<Counts> {
    let mut own = vec![Counts::default(); count];
    service.activity.limits(|limits| {
        for (_, limit) in limits.iter().filter(|(name, _)| caller.covers(name.as_str())) {
            limit.steps(|steps| {
                own.iter_mut().zip(steps.last(count)).for_each(|(sum, step)| *sum = sum.plus(step));
            });
        }
    });
    own
}

impl FromIterator<Counts> for CountSeries {
    fn from_iter<I: IntoIterator<Item = Counts>>(counts: I) -> Self {
        let mut series = Self::default();
        for Counts { allowed, denied, shadow_denied } in counts {
            series.allowed.push(allowed);
            series.denied.push(denied);
            series.shadow_denied.push(shadow_denied);
        }
        series
    }
}
