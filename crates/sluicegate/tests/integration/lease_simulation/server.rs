//! The server: the kernels over a map, or the scripts in an embedded interpreter, with the faults
//! that are planted.

use std::collections::{BTreeSet, HashMap};

use sluicegate_conformance::reference::Clock;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Lease, LeaseReport, Now, Stored};
use sluicegate_core::kernel::{Leased, State};
use sluicegate_core::record::{Entry, Record};
use sluicegate_core::value::{Write, step_values};
use sluicegate_core::{Costs, Decision, Error, Limit, Request, Span};

use crate::lease_simulation::network::Letter;
use crate::lease_simulation::scripted::{MAX_CLOCK_BACK, Scripted};

/// A fault that the auditor has to find.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Unreported units are given back when their lease expires.
    CreditsAtExpiry,
    /// Used units drain as if no lease were outstanding.
    DrainsBelowOutstanding,
    /// Units are taken back after their lease has expired.
    AcceptsLateReturns,
    /// Holders count their leases from when the answer came.
    CountsFromTheReply,
}

pub(crate) const FAULTS: [Fault; 4] = [
    Fault::CreditsAtExpiry,
    Fault::DrainsBelowOutstanding,
    Fault::AcceptsLateReturns,
    Fault::CountsFromTheReply,
];

pub(crate) struct Server {
    limit: Limit,
    kind: Kind,
    fault: Option<Fault>,
    /// The windows of each key, by their start.
    pub(crate) windows: HashMap<Vec<u8>, BTreeSet<u64>>,
}

enum Kind {
    Kernels(HashMap<Vec<u8>, Vec<u8>>),
    Scripts(Box<Scripted>),
}

impl Server {
    pub(crate) fn kernels(limit: &Limit, fault: Option<Fault>) -> Self {
        Self::new(limit, Kind::Kernels(HashMap::new()), fault)
    }

    pub(crate) fn scripts(limit: &Limit) -> Self {
        let policies = limit.members().iter().map(|member| member.policy().clone());
        let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
        Self::new(limit, Kind::Scripts(Box::new(Scripted::new(policies.collect(), clock))), None)
    }

    fn new(limit: &Limit, kind: Kind, fault: Option<Fault>) -> Self {
        Self { limit: limit.clone(), kind, fault, windows: HashMap::new() }
    }

    /// Decides at `now` by the server's clock.
    pub(crate) fn decide(&mut self, now: u64, letter: &Letter) -> Result<Decision, Error> {
        let leasing = letter.leasing.as_ref().map(|leasing| sluicegate_core::for_stores::Leasing {
            want: leasing.want,
            width: leasing.width,
            tag: leasing.tag,
            reports: &leasing.reports,
            pace: None,
        });
        let mut request =
            Request::new(letter.operation, &letter.key).costs(Costs::Each(&letter.costs));
        if let Some(leasing) = &leasing {
            request = request.leasing(leasing);
        }
        let (decision, value) = match &mut self.kind {
            Kind::Scripts(scripted) => {
                let decision = scripted.ask(now, &request)?;
                let key = scripted.keys(&letter.key).remove(0);
                (decision, scripted.stored().remove(&key).map(|stored| stored.value))
            }
            Kind::Kernels(values) => {
                let mut value = values.get(&letter.key).cloned();
                if let (Some(fault), Some(value)) = (self.fault, &mut value) {
                    *value = spoil(&self.limit, value, fault, now, letter);
                }
                let now = Now { micros: now, max_clock_back: Some(MAX_CLOCK_BACK) };
                let (step, mut writes) =
                    step_values(&self.limit, &request, now, &[value.as_deref()])?;
                match writes.remove(0) {
                    Write::Set { value, .. } => drop(values.insert(letter.key.clone(), value)),
                    Write::Remove => drop(values.remove(&letter.key)),
                    Write::Nothing => {}
                }
                (step.decision, values.get(&letter.key).cloned())
            }
        };
        for held in held(&self.limit, value.as_deref().unwrap_or_default()) {
            let state = match held {
                Some(Stored::State(state)) => state,
                Some(Stored::Leased(leased)) => leased.state,
                _ => continue,
            };
            if let State::Window(window) = state {
                self.windows.entry(letter.key.clone()).or_default().insert(window.start);
            }
        }
        Ok(decision)
    }

    /// Returns the answer as it arrives `late` µs after its request.
    pub(crate) fn arrives(&self, decision: Decision, late: u64) -> Decision {
        match (self.fault, decision.lease()) {
            (Some(Fault::CountsFromTheReply), Some(lease)) => {
                let left = Span::from_micros(lease.left.as_micros() + late).unwrap();
                decision.with_lease(Lease { left, ..lease })
            }
            _ => decision,
        }
    }
}

fn held(limit: &Limit, value: &[u8]) -> Vec<Option<Stored>> {
    let record = Record::decode(value);
    limit.members().iter().map(|member| record.held(member).0).collect()
}

/// Returns the value that a server with a fault stores instead.
fn spoil(limit: &Limit, value: &[u8], fault: Fault, now: u64, letter: &Letter) -> Vec<u8> {
    let mut spoilt = Vec::new();
    for (index, (member, held)) in limit.members().iter().zip(held(limit, value)).enumerate() {
        let mut leased = match held {
            Some(Stored::Leased(leased)) => *leased,
            Some(Stored::State(state)) => Leased { state, slots: Vec::new(), bound: None },
            _ => continue,
        };
        match fault {
            Fault::DrainsBelowOutstanding => leased.slots.clear(),
            Fault::CreditsAtExpiry => {
                for slot in leased.slots.iter().filter(|slot| slot.until <= now) {
                    credit(&mut leased.state, slot.units);
                }
            }
            Fault::AcceptsLateReturns => {
                let reports = letter.leasing.iter().flat_map(|leasing| &leasing.reports);
                let slots = leased.slots.clone();
                let is_over = |report: &&LeaseReport| {
                    !slots.iter().any(|slot| slot.tag == report.slot && slot.until > now)
                };
                for report in reports.filter(is_over) {
                    credit(&mut leased.state, report.units[index].returned);
                }
            }
            Fault::CountsFromTheReply => {}
        }
        if leased.slots.is_empty() {
            Entry::of(member, &leased.state).write(&mut spoilt);
        } else {
            Entry::of_leased(member, &leased).write(&mut spoilt);
        }
    }
    spoilt
}

fn credit(state: &mut State, units: u64) {
    match state {
        State::Bucket(bucket) => {
            bucket.deficit = bucket.deficit.saturating_sub(units * bucket.unit);
        }
        State::Window(window) => window.used = window.used.saturating_sub(units),
        _ => {}
    }
}
