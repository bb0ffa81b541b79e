//! The requests and reports of a lease holder, and its leases.

use sluicegate_core::for_stores::{Lease, LeaseReport, Pace};
use sluicegate_core::{self as core, DeniedCharge, Enforcement, Span};

use super::{Costs, Model, Operation, Seat, report};
use crate::algorithms::{self, Refusal};

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

/// Takes units ahead after an allowed check, if enough remain and a slot exists or is free.
pub(super) fn grant(
    seats: &mut [Seat<'_>],
    now_us: u64,
    leasing: &Leasing,
) -> Result<Option<Lease>, Refusal> {
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
        let algorithm = seat.named.policy.algorithm();
        seat.account.lease(algorithm, seat.at, times * seat.units, until, tag)?;
    }
    let left = Span::from_micros(until - latest).unwrap_or(Span::MAX);
    Ok(Some(Lease { times, share: 0, slot: tag, left }))
}
