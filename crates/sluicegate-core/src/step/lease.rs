//! Leases: the reports of their holders before a decision, and the lease of an allowed request.

use super::judge::Judge;
use super::{Call, Step};
use crate::kernel::leased::Leased;
use crate::kernel::slot::{self, Slot, booked};
use crate::kernel::{Charge, Now, Verdict};
use crate::lease::{Lease, LeaseReport, Leasing, Pace, ReportedUnits};
use crate::number::MAX_EXACT;
use crate::request::{Costs, Operation};
use crate::time::Span;

/// Before the decision: applies the holder's reports, regardless of the decision.
pub(super) fn before(call: Call<'_>, judge: &mut Judge<'_>) {
    if let Some(leasing) = call.request.leases() {
        judge.report(leasing.reports);
    }
}

/// Takes units ahead for an allowed check, with the charge.
pub(super) fn charge(call: Call<'_>, judge: &mut Judge<'_>, allowed: bool) -> Option<Lease> {
    let leasing = call.request.leases().filter(|_| allowed)?;
    let is_check = call.operation == Operation::Check;
    is_check.then(|| match leasing.pace {
        Some(pace) => judge.lease_paced(leasing, pace, call.now),
        None => judge.lease(call.request.cost(), leasing, call.now),
    })?
}

/// After the decision: adds the lease to it.
pub(super) fn after(lease: Option<Lease>, step: &mut Step) {
    if lease.is_some() {
        step.decision.extras_mut().lease = lease;
    }
}

impl Judge<'_> {
    /// Applies reports of leases that haven't ended.
    fn report(&mut self, reports: &[LeaseReport]) {
        for report in reports {
            for index in 0..self.accounts.len() {
                if !self.slots(index).is_empty() {
                    self.report_one(index, report);
                }
            }
        }
    }

    fn report_one(&mut self, index: usize, report: &LeaseReport) {
        let Some(slot) =
            self.outstanding_mut(index).slots.iter_mut().find(|slot| slot.tag == report.slot)
        else {
            return;
        };
        let ReportedUnits { spent, returned } = report.units[index];
        let returned = returned.min(slot.units);
        let over = returned + spent.min(slot.units - returned);
        if over == 0 {
            return;
        }
        slot.units -= over;
        let slots = &mut self.outstanding_mut(index).slots;
        slots.retain(|slot| !slot.is_empty());
        let outstanding = slot::total(slots);
        let account = &mut self.accounts[index];
        let _ = account.refund(returned);
        if outstanding > 0 {
            account.pin(outstanding);
        }
        if let Some(bound) = self.bound_mut(index) {
            let _ = bound.account.refund(returned);
            bound.pin(outstanding);
        }
        self.changed |= 1 << index;
    }

    /// Takes units ahead from all policies with a cost, or from none.
    fn lease(&mut self, costs: Costs<'_>, leasing: &Leasing<'_>, now: Now) -> Option<Lease> {
        let limit = self.limit();
        let charged = |index: &usize| costs.of(limit, *index) > 0;
        let policies = || (0..limit.members().len()).filter(charged);
        let mut until = leasing.until(now.micros);
        let mut times = leasing.want;
        for index in policies() {
            let account = &self.accounts[index];
            let share = account.remaining_before() / Leasing::SHARE;
            times = times.min(share / costs.of(limit, index));
            until = until.min(account.leases_end());
        }
        if times == 0 || until > MAX_EXACT {
            return None;
        }
        let ends_then = |slot: &&Slot| slot.until == until;
        let tag = policies().find_map(|index| self.slots(index).iter().find(ends_then));
        let tag = tag.map_or(leasing.tag, |slot| slot.tag);
        let mut left = u64::MAX;
        for index in policies() {
            if !has_room(self.slots(index), until, tag) {
                return None;
            }
            left = left.min(until.checked_sub(self.accounts[index].judged_at())?);
        }
        // Without a charged policy, nothing is leased.
        let left = Some(left).filter(|left| (1..u64::MAX).contains(left))?;
        let charge = |index| Charge::at_once(times * costs.of(limit, index));
        for index in policies() {
            self.can_charge(index, charge(index)).ok()?;
        }
        for index in policies() {
            let units = times * costs.of(limit, index);
            self.charge_one(index, charge(index)).ok()?;
            add(&mut self.outstanding_mut(index).slots, Slot { until, units, tag, share: 0 });
        }
        Some(Lease { times, share: 0, slot: tag, left: Span::from_micros(left).ok()? })
    }

    /// Books a share of the rate with some units, or nothing.
    fn lease_paced(&mut self, leasing: &Leasing<'_>, pace: Pace, now: Now) -> Option<Lease> {
        let (units, until) = (leasing.want, leasing.until(now.micros));
        let left = until.checked_sub(self.accounts[0].judged_at()).filter(|left| *left > 0)?;
        let mut slots = self.slots(0).to_vec();
        let free = pace.most.saturating_sub(booked(&slots));
        let mut share = pace.share.min(free);
        let mut moved = 0;
        if let Some(earlier) = pace.carried {
            let has = |slot: &&mut Slot| {
                slot.tag == earlier.slot
                    && slot.units >= earlier.units
                    && slot.share >= earlier.share
            };
            let slot = slots.iter_mut().find(has)?;
            share = pace.share.min(free + earlier.share);
            slot.share -= earlier.share.min(share);
            if units == 0 {
                moved = earlier.units;
                slot.units -= moved;
            }
            slots.retain(|slot| !slot.is_empty());
        }
        let ends_then = slots.iter().find(|slot| slot.until == until);
        let tag = ends_then.map_or(leasing.tag, |slot| slot.tag);
        if share < pace.least.max(1) || until > MAX_EXACT || !has_room(&slots, until, tag) {
            return None;
        }
        if units > 0 {
            let charge = Charge::at_once(units);
            if !matches!(self.accounts[0].judge(units, None), Verdict::Pass { wait: 0 }) {
                return None;
            }
            self.can_charge(0, charge).ok()?;
            self.charge_one(0, charge).ok()?;
        }
        add(&mut slots, Slot { until, units: units + moved, tag, share });
        self.outstanding_mut(0).slots = slots;
        self.changed |= 1;
        Some(Lease { times: units, share, slot: tag, left: Span::from_micros(left).ok()? })
    }
}

/// Returns `true` if the slot with this tag ends then, or can be opened.
fn has_room(slots: &[Slot], until: u64, tag: u64) -> bool {
    match slots.iter().find(|slot| slot.tag == tag) {
        Some(slot) => slot.until == until,
        None => slots.len() < Leased::MAX_SLOTS,
    }
}

/// Adds to the slot with this tag, or opens it.
fn add(slots: &mut Vec<Slot>, new: Slot) {
    match slots.iter_mut().find(|slot| slot.tag == new.tag) {
        Some(slot) => {
            slot.units += new.units;
            slot.share += new.share;
        }
        None => {
            let place = slots.partition_point(|slot| slot.until <= new.until);
            slots.insert(place, new);
        }
    }
}
