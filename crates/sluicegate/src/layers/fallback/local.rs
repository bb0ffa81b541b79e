//! The local limiter of one limit.

use std::num::NonZeroU16;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use sluicegate_core::{
    Decision, DeniedCharge, Limit, OpenOptions, OpenedLimit as _, Operation, Request, Span,
    Store as _,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};

use super::debts::Units;
use super::share::share;

/// A limit whose shares are opened in an embedded store as they are needed. The states belong to the limit's name and
/// policies, regardless of the share.
pub(super) struct Local {
    memory: MemoryStore,
    limit: Limit,
    shares: ArcSwapOption<Shares>,
}

/// The shares of one of a number of processes.
pub(super) struct Shares {
    processes: NonZeroU16,
    parts: Box<[MemoryLimit]>,
    /// Several parts together.
    joint: Option<MemoryLimit>,
}

impl Local {
    pub(super) const fn new(memory: MemoryStore, limit: Limit) -> Self {
        Self { memory, limit, shares: ArcSwapOption::const_empty() }
    }

    /// Returns the shares of one of `processes` processes; `None` if the limit has none.
    pub(super) fn shares(&self, processes: NonZeroU16) -> Option<Arc<Shares>> {
        if let Some(known) = self.shares.load_full().filter(|known| known.processes == processes) {
            return Some(known);
        }
        let open = |limit| self.memory.open(limit, OpenOptions::default());
        let parts = share(&self.limit, processes)?;
        let joint = match parts.as_slice() {
            [_] => None,
            parts => Some(open(Limit::together(parts.iter().cloned()).ok()?)),
        };
        let parts = parts.into_iter().map(open).collect();
        let shares = Arc::new(Shares { processes, parts, joint });
        self.shares.store(Some(Arc::clone(&shares)));
        Some(shares)
    }
}

impl Shares {
    /// Returns all parts together.
    pub(super) fn whole(&self) -> &MemoryLimit {
        self.joint.as_ref().unwrap_or(&self.parts[0])
    }

    /// Returns those of the admitted units that count against a subject now. Units that were charged before flow back
    /// first.
    pub(super) fn owed(&self, part: usize, subject: &[u8], admitted: &Units) -> Units {
        let opened = &self.parts[part];
        let used = opened.used(&Request::new(Operation::Peek, subject));
        let members = opened.limit().members().iter().zip(used);
        let owed = members.filter_map(|(member, used)| {
            let (policy, units) =
                admitted.iter().find(|(policy, _)| *policy == member.identity())?;
            let owed = used.min(*units);
            (owed > 0).then_some((*policy, owed))
        });
        owed.collect()
    }
}

/// Returns the parts of a limit, each a limit by itself.
pub(super) fn parts_of(limit: &Limit) -> Vec<Limit> {
    share(limit, NonZeroU16::MIN).unwrap_or_default()
}

/// Returns the units of one part's policies that a decision took, and the time in µs after which none of them counts
/// any more.
pub(super) fn admitted(part: usize, request: &Request<'_>, decision: &Decision) -> (Units, u64) {
    let (mut units, mut until) = (Units::new(), 0);
    let Some(limit) = decision.limit() else { return (units, until) };
    for (index, outcome) in decision.policies().enumerate() {
        let member = outcome.member();
        if member.part() != part {
            continue;
        }
        let cost = request.cost_of(limit, index);
        let taken = if decision.is_allowed() && outcome.is_admitted() {
            match request.operation() {
                Operation::Take => cost.min(decision.granted()),
                _ => cost,
            }
        } else if member.policy().denied_charge() != DeniedCharge::Free {
            cost
        } else {
            0
        };
        if taken > 0 {
            units.push((member.identity(), taken));
            until =
                until.max(outcome.reset_after().map(Span::from).map_or(u64::MAX, Span::as_micros));
        }
    }
    (units, until)
}
