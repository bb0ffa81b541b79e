//! The requests and reports of a lease holder, and its leases.

use sluicegate_core::for_stores::{Lease, LeaseReport, Pace};
use sluicegate_core::{self as core, Algorithm, DeniedCharge, Enforcement, Span};

use super::{Costs, Model, Operation, Seat, report};
use crate::algorithms::{self, Patience, Refusal, Retry, Slots};

/// A lease takes at most 1/`SHARE` of the remaining units.
const SHARE: u64 = 8;
/// A lease ends at the start of the slot that is this many slots after the current one.
const SLOTS_AHEAD: u64 = 5;

/// A lease holder's part of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leasing {
    /// Maximum multiple of the request's costs to take ahead.
    pub want: u64,
    /// The width of a slot.
    pub width: Span,
    /// The tag of a slot that the request opens.
    pub tag: u64,
    /// The reports about earlier leases.
    pub reports: Vec<LeaseReport>,
    /// The share of the rate to book with the lease.
    pub pace: Option<Pace>,
}

/// Units that were outstanding of one policy when its state was last written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outstanding {
    /// The index of the policy.
    pub policy: usize,
    /// The slot's tag in reports.
    pub slot: u64,
    /// The number of units.
    pub units: u64,
    /// The booked share of the rate, in millionths.
    pub share: u64,
    /// The end, in microseconds since the Unix epoch.
    pub until_us: u64,
}

impl Leasing {
    /// Returns the requests and reports in the form that a store takes.
    #[must_use]
    pub fn for_store(&self) -> core::for_stores::Leasing<'_> {
        let Self { want, width, tag, reports, pace } = self;
        core::for_stores::Leasing { want: *want, width: *width, tag: *tag, reports, pace: *pace }
    }
}

impl Model {
    /// Returns `true` if all policies can be leased: plain buckets and fixed windows.
    #[must_use]
    pub fn is_leasable(&self) -> bool {
        self.policies.iter().all(|named| {
            algorithms::is_leasable(named.policy.algorithm())
                && named.policy.enforcement() == Enforcement::Enforced
                && named.policy.denied_charge() == DeniedCharge::Free
        })
    }

    /// Returns `true` if a share of the rate can be leased: the one policy is a bucket with a rate.
    #[must_use]
    pub fn is_pacable(&self) -> bool {
        let [named] = &*self.policies else { return false };
        let has_rate = match named.policy.algorithm() {
            Algorithm::TokenBucket { rate, .. }
            | Algorithm::Gcra { rate, .. }
            | Algorithm::LeakyBucket { rate, .. } => rate.count() > 0,
            _ => false,
        };
        has_rate && self.is_leasable()
    }

    /// Returns the number of policies.
    #[must_use]
    pub fn policies(&self) -> usize {
        self.policies.len()
    }

    /// Returns every slot of a key, as of its last write.
    #[must_use]
    pub fn outstanding(&self, key: &[u8]) -> Vec<Outstanding> {
        let Some(accounts) = self.keys.get(key) else { return Vec::new() };
        let slots = self.policies.iter().enumerate().filter_map(|(policy, named)| {
            let slots = accounts.get(&named.name)?.slots();
            let slots: Vec<_> = slots
                .iter()
                .map(|slot| Outstanding {
                    policy,
                    slot: slot.tag,
                    units: slot.units,
                    share: slot.share,
                    until_us: slot.until,
                })
                .collect();
            Some(slots)
        });
        slots.flatten().collect()
    }
}

impl Model {
    /// Returns `true` if the model has no answer about the key's leases at `now_us`. There are two
    /// cases:
    ///
    /// - A clock that stepped back has left units leased beyond the end of their window.
    /// - The state is too large for new numbers.
    pub(crate) fn has_open_question(&self, now_us: u64, key: &[u8]) -> bool {
        let peek = Operation::Peek { costs: Costs::Unsaid };
        let Ok(seats) = self.seats(now_us, key, &peek) else {
            return !self.outstanding(key).is_empty();
        };
        seats.iter().any(|seat| {
            let end = seat.account.window_end(seat.algorithm(), seat.at);
            let is_too_large = seat.account.report(seat.algorithm(), seat.at).is_err();
            let is_beyond = |until: u64| end.is_some_and(|end| until > end) || is_too_large;
            seat.account.slots().iter().any(|slot| is_beyond(slot.until))
        })
    }
}

/// Applies a holder's reports to all policies.
pub(super) fn hear(seats: &mut [Seat<'_>], leasing: &Leasing) -> Result<(), Refusal> {
    for told in &leasing.reports {
        for (seat, units) in seats.iter_mut().zip(&told.units) {
            let algorithm = seat.named.policy.algorithm();
            seat.account.hear(algorithm, seat.at, told.slot, *units)?;
        }
    }
    Ok(())
}

/// Books a share of a bucket's rate with units, or nothing.
fn book(
    seat: &mut Seat<'_>,
    now_us: u64,
    leasing: &Leasing,
    pace: Pace,
) -> Result<Option<Lease>, Refusal> {
    let (units, width) = (leasing.want, leasing.width.as_micros());
    let until = (now_us / width + SLOTS_AHEAD) * width;
    let mut slots = live_slots(seat);
    let earlier = pace.carried.map_or(0, |earlier| earlier.share);
    let share = pace.share.min(pace.most.saturating_sub(slots.booked()) + earlier);
    let mut moved = 0;
    if let Some(carried) = pace.carried {
        // A lease without new units is carried on, so its units move too.
        moved = if units == 0 { carried.units } else { 0 };
        let taken = (moved, carried.share.min(share));
        if !slots.lower(carried.slot, (carried.units, carried.share), taken) {
            return Ok(None);
        }
    }
    let tag = slots.iter().find(|slot| slot.until == until).map_or(leasing.tag, |slot| slot.tag);
    if share < pace.least.max(1) || until <= seat.at || !slots.has_place(until, tag) {
        return Ok(None);
    }
    let algorithm = seat.named.policy.algorithm();
    if units > 0 && !is_admitted(seat, units)? {
        return Ok(None);
    }
    slots.add(until, tag, units + moved, share);
    seat.account.lease(algorithm, seat.at, units, slots)?;
    let left = Span::from_micros(until - seat.at).unwrap_or(Span::MAX);
    Ok(Some(Lease { times: units, share, slot: tag, left }))
}

fn is_admitted(seat: &Seat<'_>, units: u64) -> Result<bool, Refusal> {
    let verdict = seat.account.judge(seat.algorithm(), seat.at, units, Patience::Plain)?;
    Ok((verdict.retry, verdict.wait_us) == (Retry::Now, 0))
}

/// Returns the slots that haven't ended at the evaluation time.
fn live_slots(seat: &Seat<'_>) -> Slots {
    let mut slots = seat.account.slots();
    slots.drop_over(seat.at);
    slots
}

/// Takes units ahead after an allowed check, if enough remain and a slot exists or is free.
pub(super) fn grant(
    seats: &mut [Seat<'_>],
    now_us: u64,
    leasing: &Leasing,
) -> Result<Option<Lease>, Refusal> {
    if let Some(pace) = leasing.pace {
        return book(&mut seats[0], now_us, leasing, pace);
    }
    let mut charged: Vec<&mut Seat<'_>> = seats.iter_mut().filter(|seat| seat.units > 0).collect();
    let mut times = leasing.want;
    let width = leasing.width.as_micros();
    let mut until = (now_us / width + SLOTS_AHEAD) * width;
    for seat in &charged {
        let remaining = report(seat)?.remaining.unwrap_or(0);
        times = times.min(remaining / SHARE / seat.units);
        if let Some(end) = seat.account.window_end(seat.algorithm(), seat.at) {
            until = until.min(end);
        }
    }
    let Some(latest) = charged.iter().map(|seat| seat.at).max() else { return Ok(None) };
    let tag = charged
        .iter()
        .find_map(|seat| {
            seat.account.slots().iter().find(|slot| slot.until == until).map(|slot| slot.tag)
        })
        .unwrap_or(leasing.tag);
    let has_place = charged.iter().all(|seat| seat.account.slots().has_place(until, tag));
    if times == 0 || until <= latest || !has_place {
        return Ok(None);
    }
    for seat in &mut charged {
        let (mut slots, units) = (live_slots(seat), times * seat.units);
        slots.add(until, tag, units, 0);
        seat.account.lease(seat.named.policy.algorithm(), seat.at, units, slots)?;
    }
    let left = Span::from_micros(until - latest).unwrap_or(Span::MAX);
    Ok(Some(Lease { times, share: 0, slot: tag, left }))
}
