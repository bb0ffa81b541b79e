//! The units of one key that a process holds: pure, with the time as an argument.

use smallvec::SmallVec;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Lease, LeaseReport, Leasing, ReportedUnits};
use sluicegate_core::{Decision, Timestamp};

use super::Units;

/// The state of a key.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// The number of requests whose units are requested in calls under way.
    asked: u64,
    held: Option<Box<Held>>,
}

/// The result of a check.
#[derive(Debug)]
pub(super) enum Local {
    /// Allowed, with held units.
    Spent(Decision),
    /// The store has to be called.
    Ask {
        /// Requests the units of this many more requests.
        want: u64,
        /// Carries these reports.
        reports: Vec<LeaseReport>,
    },
}

/// The key of a holding, under an opened limit.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// The number of the opened limit.
    pub(super) limit: u64,
    pub(super) key: Box<[u8]>,
}

/// A lease, and the decision that came with it.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) owner: Owner,
    pub(super) lease: Lease,
    /// When the store was called, by this process's clock. The store evaluated the call later, so a lease counted from
    /// here ends locally before it ends in the store.
    pub(super) sent: u64,
    pub(super) decision: Decision,
}

/// Units that left a holding, of all policies together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Gone {
    pub(super) spent: u64,
    pub(super) returned: u64,
    pub(super) expired: u64,
}

#[derive(Debug)]
struct Held {
    owner: Owner,
    /// The oldest first.
    leases: SmallVec<[Share; 2]>,
    /// The store is called again when at most this many requests are left.
    low: u64,
    decision: Decision,
}

/// The remaining units of the leases in one slot.
#[derive(Debug)]
struct Share {
    /// The store's number of the slot.
    slot: u64,
    taken_at: Timestamp,
    /// Expiry by the clock of this process.
    ends: u64,
    units: SmallVec<[Stock; 2]>,
}

/// The units of one policy.
#[derive(Clone, Copy, Debug, Default)]
struct Stock {
    left: u64,
    /// Units spent and not reported yet.
    spent: u64,
}

/// The store is called again when 1/`EARLY` of a lease is left.
const EARLY: u64 = 4;

/// Minimum number of requests for which a lease is requested. Granting and reporting a lease takes a server about twice
/// as long as a check. An exact check of a key with leased units takes as long.
pub(super) const LEAST: u64 = 4;

impl Local {
    /// The store is called without a report.
    pub(super) const NOTHING: Self = Self::Ask { want: 0, reports: Vec::new() };
}

impl Holding {
    /// Returns whether no units are held or requested.
    pub(super) const fn is_empty(&self) -> bool {
        self.asked == 0 && self.held.is_none()
    }

    /// Evaluates a check of a key with this many recent requests, for which the units of at most this many requests may
    /// be held.
    pub(super) fn check(
        &mut self,
        costs: &Units,
        lately: u64,
        most: u64,
        now: u64,
        gone: &mut Gone,
    ) -> Local {
        self.drop_ended(now, gone);
        let wants = lately.saturating_sub(self.asked).min(most);
        let wants = if wants < LEAST { 0 } else { wants };
        let left = self.held.as_ref().map_or(0, |held| held.left(costs));
        let is_low = self.held.as_ref().is_some_and(|held| left <= held.low);
        let asks_early = is_low && self.asked == 0 && wants > 0;
        if left > 0
            && !asks_early
            && let Some(decision) = self.spend(costs, gone)
        {
            return Local::Spent(decision);
        }
        let reports = if left > 0 { self.report_spent() } else { self.give_up(gone) };
        self.asked += wants;
        Local::Ask { want: wants, reports }
    }

    /// Spends a request's costs, if they are held.
    pub(super) fn spend_now(
        &mut self,
        costs: &Units,
        now: u64,
        gone: &mut Gone,
    ) -> Option<Decision> {
        self.drop_ended(now, gone);
        self.spend(costs, gone)
    }

    /// Notes that a request for units was answered or abandoned.
    pub(super) const fn asked(&mut self, want: u64) {
        self.asked = self.asked.saturating_sub(want);
    }

    /// Adds granted units.
    pub(super) fn add(&mut self, costs: &Units, granted: Granted) {
        let Granted { owner, lease, sent, decision } = granted;
        let taken_at = decision.taken_at().unwrap_or(Timestamp::EPOCH);
        let ends = sent.saturating_add(lease.left.as_micros());
        let held = match &mut self.held {
            Some(held) => {
                held.decision = decision;
                held
            }
            none => {
                let held = Held { owner, leases: SmallVec::new(), low: 0, decision };
                none.insert(Box::new(held))
            }
        };
        held.low = lease.times / EARLY;
        let granted = costs.iter().map(|cost| lease.times.saturating_mul(*cost));
        if let Some(share) = held.leases.iter_mut().find(|share| share.slot == lease.slot) {
            share.ends = share.ends.min(ends);
            share.taken_at = share.taken_at.min(taken_at);
            for (stock, units) in share.units.iter_mut().zip(granted) {
                stock.left += units;
            }
        } else {
            let units = granted.map(|left| Stock { left, spent: 0 }).collect();
            held.leases.push(Share { slot: lease.slot, taken_at, ends, units });
        }
    }

    /// Discards the held units, and returns the reports for the store.
    pub(super) fn give_up(&mut self, gone: &mut Gone) -> Vec<LeaseReport> {
        let Some(held) = self.held.take() else {
            return Vec::new();
        };
        let report = |share: Share| {
            let units = share.units.iter().map(|stock| {
                gone.returned += stock.left;
                ReportedUnits { spent: stock.spent, returned: stock.left }
            });
            report(share.slot, units.collect())
        };
        // A report beyond the maximum is not sent: its units are used up.
        held.leases.into_iter().filter_map(report).take(MOST_REPORTS).collect()
    }

    /// Returns the key whose units are held; `None` if there are none.
    pub(super) fn owner(&self) -> Option<Owner> {
        self.held.as_ref().map(|held| held.owner.clone())
    }

    /// Returns the number of held units.
    pub(super) fn units(&self) -> u64 {
        let leases = self.held.iter().flat_map(|held| &held.leases);
        leases.flat_map(|share| &share.units).map(|stock| stock.left).sum()
    }

    /// Reports the spent units that the store doesn't know.
    fn report_spent(&mut self) -> Vec<LeaseReport> {
        let leases = self.held.iter_mut().flat_map(|held| &mut held.leases);
        let report = |share: &mut Share| {
            let units = share.units.iter_mut().map(|stock| ReportedUnits {
                spent: std::mem::take(&mut stock.spent),
                returned: 0,
            });
            report(share.slot, units.collect())
        };
        leases.filter_map(report).take(MOST_REPORTS).collect()
    }

    fn drop_ended(&mut self, now: u64, gone: &mut Gone) {
        let Some(held) = &mut self.held else {
            return;
        };
        held.leases.retain(|share| {
            let goes_on = now < share.ends;
            if !goes_on {
                gone.expired += share.units.iter().map(|stock| stock.left).sum::<u64>();
            }
            goes_on
        });
        if held.leases.is_empty() {
            self.held = None;
        }
    }

    fn spend(&mut self, costs: &Units, gone: &mut Gone) -> Option<Decision> {
        let held = self.held.as_mut()?;
        let share = held.leases.iter_mut().find(|share| share.left(costs) > 0)?;
        for (stock, cost) in share.units.iter_mut().zip(costs) {
            stock.left -= cost;
            stock.spent += cost;
            gone.spent += cost;
        }
        let taken_at = share.taken_at;
        let left = |policy: usize| {
            let leases = held.leases.iter();
            leases.map(|share| share.units.get(policy).map_or(0, |stock| stock.left)).sum()
        };
        Some(held.decision.leased(taken_at, costs, left))
    }
}

/// Maximum number of reports in one call.
const MOST_REPORTS: usize = Leasing::MAX_REPORTS;

/// Returns the report, or `None` if it has no units.
fn report(slot: u64, units: Vec<ReportedUnits>) -> Option<LeaseReport> {
    let says_something = units.iter().any(|units| units.spent > 0 || units.returned > 0);
    says_something.then_some(LeaseReport { slot, units })
}

impl Held {
    /// Returns the number of requests that can be spent.
    fn left(&self, costs: &Units) -> u64 {
        self.leases.iter().map(|share| share.left(costs)).sum()
    }
}

impl Share {
    fn left(&self, costs: &Units) -> u64 {
        let each =
            self.units.iter().zip(costs).filter_map(|(stock, cost)| stock.left.checked_div(*cost));
        each.min().unwrap_or(0)
    }
}
