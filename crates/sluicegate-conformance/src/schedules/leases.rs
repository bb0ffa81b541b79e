//! Random requests and reports of lease holders, including wrong ones.

use sluicegate_core::for_stores::{Carried, LeaseReport, Pace, ReportedUnits};
use sluicegate_core::{Algorithm, Cost, MAX_EXACT, Policy, PolicyError, Rate, Span};

use crate::dice::Dice;
use crate::reference::{Answer, Leasing, Model, Operation, Outstanding, Refusal};

use super::Leases;
use super::policies::charging_denied;

/// The lease holders of a limit.
pub(super) struct Holders {
    /// Factor by which the policies' numbers are larger than in other schedules.
    scale: u64,
    /// The widths of slots in use.
    widths: Vec<Span>,
    /// The key of the last request.
    key: Vec<u8>,
    /// Tags of slots that exist or existed.
    slots: Vec<u64>,
    /// The kind of leases that they request.
    wanted: Leases,
}

impl Holders {
    pub(super) fn new(dice: &mut Dice, wanted: Leases) -> Self {
        let micros = |dice: &mut Dice| match dice.below(8) {
            0 => 1_000,
            1 => 10_000_000,
            2 => dice.between(1_000, 10_000_000),
            3 => 1_000_000,
            _ => 200_000,
        };
        let count = dice.pick(&[1, 1, 2, 12]);
        let widths = (0..count).filter_map(|_| Span::from_micros(micros(dice)).ok()).collect();
        Self {
            scale: dice.pick(&[1, 8, 60, 60, 1_000]),
            widths,
            key: Vec::new(),
            slots: Vec::new(),
            wanted,
        }
    }

    /// Returns policies that can be leased, usually large enough that units remain to lease.
    pub(super) fn leasable(&self, dice: &mut Dice, policies: Vec<Policy>) -> Vec<Policy> {
        let faster = dice.pick(&[1, 1, 10]);
        let plain = |policy: Policy| {
            let algorithm = policy.algorithm();
            let sized = enlarged(algorithm, self.scale, faster);
            let plain = sized.or_else(|_| Policy::new(algorithm.clone()));
            plain.map_or_else(|_| policy.clone(), |plain| alike(plain, &policy))
        };
        policies.into_iter().map(plain).collect()
    }

    /// Makes one of the policies unleasable, in 1 of 3 cases.
    pub(super) fn maybe_unleasable(dice: &mut Dice, mut policies: Vec<Policy>) -> Vec<Policy> {
        if dice.one_in(3) {
            let index = dice.below_len(policies.len());
            let policy = policies[index].clone();
            policies[index] =
                if dice.one_in(3) { policy.shadow() } else { charging_denied(policy) };
        }
        policies
    }

    /// Returns a time at or within 1 µs of the end of a slot of the last key, in 1 of 5 cases.
    pub(super) fn end(&self, dice: &mut Dice, model: &Model) -> Option<u64> {
        if !dice.one_in(5) {
            return None;
        }
        let outstanding = model.outstanding(&self.key);
        let any = outstanding.get(dice.below_len(outstanding.len()))?;
        Some(any.until_us + dice.below(3) - 1)
    }

    /// Returns a lease holder's part of a request.
    pub(super) fn leasing(
        &mut self,
        dice: &mut Dice,
        model: &Model,
        key: &[u8],
        operation: &Operation,
    ) -> Option<Leasing> {
        let is_peek = matches!(operation, Operation::Peek { .. });
        if is_peek || !model.is_leasable() && !dice.one_in(4) || dice.one_in(6) {
            return None;
        }
        let wants = matches!(operation, Operation::Check { .. }) && !dice.one_in(4);
        let tag = match dice.below(30) {
            0 => 7,
            1 if !self.slots.is_empty() => dice.pick(&self.slots),
            _ => dice.below(MAX_EXACT),
        };
        let pace =
            if wants && self.wanted != Leases::Ignored { pace(dice, model, key) } else { None };
        if self.wanted == Leases::Shares && pace.is_none() {
            return None;
        }
        let want = match pace {
            _ if !wants => 0,
            Some(Pace { share, carried: Some(carried), .. }) if carried.share == share => {
                dice.pick(&[0, 0, 1, 5])
            }
            Some(_) => dice.pick(&[1, 1, 2, 5, 1_000]),
            None => dice.pick(&[1, 2, 5, 100, 1_000, MAX_EXACT]),
        };
        Some(Leasing {
            want,
            width: dice.pick(&self.widths),
            tag,
            reports: match self.wanted {
                Leases::Shares => Vec::new(),
                _ => self.reports(dice, model, key),
            },
            pace,
        })
    }

    pub(super) fn learn(&mut self, key: &[u8], answer: &Result<Answer, Refusal>) {
        self.key = key.to_vec();
        if let Ok(Answer { lease: Some(lease), .. }) = answer
            && !self.slots.contains(&lease.slot)
        {
            self.slots.push(lease.slot);
        }
    }

    /// Returns reports about existing slots, removed ones and unknown ones.
    fn reports(&self, dice: &mut Dice, model: &Model, key: &[u8]) -> Vec<LeaseReport> {
        let outstanding = model.outstanding(key);
        let mut slots: Vec<u64> = outstanding.iter().map(|units| units.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots.retain(|_| dice.one_in(3));
        if !self.slots.is_empty() && dice.one_in(10) {
            slots.push(dice.pick(&self.slots));
        }
        if dice.one_in(40) {
            slots.push(dice.below(MAX_EXACT));
        }
        slots.truncate(8);
        let policies = model.policies();
        let report = |slot: u64| {
            let units = (0..policies).map(|policy| {
                let is_own = |units: &&Outstanding| (units.policy, units.slot) == (policy, slot);
                let units = outstanding.iter().find(is_own).map_or(0, |units| units.units);
                ReportedUnits { spent: some(dice, units), returned: some(dice, units) }
            });
            LeaseReport { slot, units: units.collect() }
        };
        slots.into_iter().map(report).collect()
    }
}

/// Returns a share of the rate to book in half of the cases, if the limit has a bucket for it. It often
/// carries on an earlier lease, or one that has never existed.
fn pace(dice: &mut Dice, model: &Model, key: &[u8]) -> Option<Pace> {
    if !model.is_pacable() || dice.one_in(2) {
        return None;
    }
    let share = match dice.below(4) {
        0 => dice.pick(&[1, 500_000, Pace::MOST]),
        _ => dice.between(1, 400_000),
    };
    let mut earlier = model.outstanding(key);
    earlier.retain(|slot| slot.share > 0);
    let carried = if earlier.is_empty() || dice.one_in(3) {
        None
    } else {
        let slot = earlier[dice.below_len(earlier.len())];
        let (units, share) = (some(dice, slot.units), some(dice, slot.share));
        let slot = if dice.one_in(20) { dice.below(MAX_EXACT) } else { slot.slot };
        Some(Carried { slot, units, share: share.clamp(1, Pace::MOST) })
    };
    let share = carried.filter(|_| dice.one_in(2)).map_or(share, |carried| carried.share);
    let most = dice.pick(&[Pace::MOST, Pace::MOST, 600_000, 0]);
    Some(Pace { share, least: dice.pick(&[0, 1, share / 2, share]), most, carried })
}

/// Returns none, all or some of these units, or more than there are.
fn some(dice: &mut Dice, units: u64) -> u64 {
    match dice.below(8) {
        0..2 => 0,
        2 => units,
        3 => dice.pick(&[units + 1, units * 2, MAX_EXACT]).min(MAX_EXACT),
        _ => dice.below(units + 1),
    }
}

/// Returns the algorithm with a larger burst or limit, and a rate that is `faster` times as high.
fn enlarged(algorithm: &Algorithm, scale: u64, faster: u64) -> Result<Policy, PolicyError> {
    let times = |units: &u64| units.saturating_mul(scale);
    let more = |rate: &Rate| Rate::new(rate.count().saturating_mul(faster), rate.period());
    Policy::new(match algorithm {
        Algorithm::TokenBucket { rate, burst } => {
            Algorithm::TokenBucket { rate: more(rate)?, burst: times(burst) }
        }
        Algorithm::Gcra { rate, burst } => {
            Algorithm::Gcra { rate: more(rate)?, burst: times(burst) }
        }
        Algorithm::LeakyBucket { rate, capacity } => {
            Algorithm::LeakyBucket { rate: more(rate)?, capacity: times(capacity) }
        }
        Algorithm::FixedWindow { limit, window } => {
            Algorithm::FixedWindow { limit: times(limit), window: window.clone() }
        }
        other => other.clone(),
    })
}

/// Gives a policy the name and cost of another one.
fn alike(policy: Policy, other: &Policy) -> Policy {
    let cost: Cost = other.cost();
    let policy = policy.with_cost(cost);
    match other.name() {
        Some(name) => policy.named(name.clone()),
        None => policy,
    }
}
