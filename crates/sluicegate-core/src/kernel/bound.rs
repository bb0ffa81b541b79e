//! What a bucket has used at most, known in a second way while units are held of it.
//!
//! A bucket whose held units drain like any others can give little back when they are settled late. So
//! while units are held it keeps a second bound of its deficit, in which they don't drain: what is
//! settled and what is held. That is a [lease](super::leased) with one holder, so it has slots as leases
//! have, and giving back what was not used is exact. Both are bounds of what was really used;
//! the bucket goes by the smaller one, which its deficit is made whenever something is settled.
//! `docs/semantics.md#holding` says why both hold.

use smallvec::SmallVec;

use super::leased::{Leased, Slot, total};
use super::{Account, Admission, Charge, Now, Overflow, Rule, State, bucket};
use crate::hold::HoldId;
use crate::number::MAX_EXACT;
use crate::time::Span;

/// The second bound of a bucket of which units are held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bound {
    /// The deficit in which what is held doesn't drain: at the newest time, in the ticks of the state.
    pub deficit: u64,
    /// What is held, the slot that ends first first.
    pub slots: SmallVec<[Slot; Bound::MAX_SLOTS]>,
}

/// The second bound at the time of judgement.
#[derive(Clone, Debug)]
pub(crate) struct Second<'r> {
    pub(crate) account: Account<'r>,
    slots: Slots,
}

/// A slot for units that are to be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    until: u64,
    tag: u64,
}

impl Bound {
    /// The most slots for what is held.
    pub const MAX_SLOTS: usize = 8;
    /// The longest time for which units are in a slot: a day, and what its end is rounded up by.
    /// Slots that lie further ahead, because the clock stepped back, are brought to it.
    pub const LONGEST: Span = match Span::from_micros(Span::DAY.as_micros() + (1 << 36)) {
        Ok(longest) => longest,
        Err(_) => Span::DAY,
    };
}

impl Place {
    /// The slot for what somebody holds for so long: those of similar lives end together, no sooner than
    /// what they hold, so that few slots are enough. Its tag comes from the id of the hold for which it
    /// is opened, and doesn't come again when the clock steps back.
    pub(crate) fn of(id: HoldId, lasts: Span, now: Now) -> Self {
        let lasts = lasts.as_micros();
        let width = lasts.div_ceil(2).next_power_of_two();
        let until = now.micros.saturating_add(lasts).div_ceil(width).saturating_mul(width);
        let id = id.to_bytes();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let tag = number(&id[..6]) + number(&id[6..12]) + number(&id[12..]) + until % (1 << 50);
        Self { until, tag }
    }

    /// Whether it ends after a time, and a state can say when.
    pub(crate) const fn is_after(self, at: u64) -> bool {
        self.until > at && self.until <= MAX_EXACT
    }
}

impl<'r> Second<'r> {
    /// Brings a bound to the time of judgement; `None` if nothing is held any more. Units of the same
    /// state are leased in `leases`.
    pub(super) fn open(
        rule: &'r Rule,
        Leased { state, slots: leases, bound }: &Leased,
        now: Now,
    ) -> Result<Option<Self>, Overflow> {
        let (Some(bound), State::Bucket(state)) = (bound, state) else { return Ok(None) };
        let mut slots: Vec<Slot> = leases.iter().chain(&bound.slots).copied().collect();
        slots.sort_by_key(|slot| slot.until);
        let state = State::Bucket(bucket::State { deficit: bound.deficit, ..*state });
        let (account, _, _) = Leased { state, slots, bound: None }.open_first(rule, now)?;
        let is_live = |slot: &Slot| slot.until > account.judged_at();
        let slots: SmallVec<_> = bound.slots.iter().copied().filter(is_live).collect();
        Ok((!slots.is_empty()).then_some(Self { account, slots }))
    }

    /// The bound of a bucket of which nothing was held before: what it has used.
    pub(crate) fn of(account: &Account<'r>) -> Self {
        Self { account: account.clone(), slots: SmallVec::new() }
    }

    /// What is to be stored; `None` if nothing is held any more.
    pub(crate) fn into_bound(self) -> Option<Bound> {
        let Some(State::Bucket(state)) = self.account.into_state() else { return None };
        let bound = Bound { deficit: state.deficit, slots: self.slots };
        (!bound.slots.is_empty()).then_some(bound)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts what is held as used, and what is leased.
    pub(crate) fn pin(&mut self, leased: u64) {
        self.account.pin(leased.saturating_add(total(&self.slots)));
    }

    /// Charges what the bucket is charged. What is held may be used before somebody acts later.
    pub(crate) fn charge(&mut self, charge: Charge, leased: u64) -> Result<(), Overflow> {
        match charge {
            Charge::Admitted(Admission { cost, act_in }) if act_in > 0 => {
                let outstanding = leased.saturating_add(total(&self.slots));
                let cost = cost.saturating_add(outstanding);
                let _ = self.account.refund(outstanding);
                self.account.charge(Charge::Admitted(Admission { cost, act_in }))
            }
            charge => self.account.charge(charge),
        }
    }

    /// Fails if [`Second::charge`] would.
    pub(crate) fn can_charge(&self, charge: Charge, leased: u64) -> Result<(), Overflow> {
        self.clone().charge(charge, leased)
    }

    /// Takes units into a slot, and says which; `None` if there is none for them.
    pub(crate) fn hold(&mut self, units: u64, place: Place) -> Option<u64> {
        add(&mut self.slots, units, place, self.account.judged_at())
    }

    /// Whether units are in the slot of this tag.
    pub(crate) fn has(&self, tag: u64, units: u64) -> bool {
        self.slots.iter().any(|slot| slot.tag == tag && slot.units >= units)
    }

    /// Takes units out of the slot of this tag; whether they were in it.
    pub(crate) fn release(&mut self, tag: u64, units: u64) -> bool {
        remove(&mut self.slots, tag, units).is_some()
    }
}

impl Leased {
    /// Moves held units to another slot, and says to which; `None` if they stay in theirs, or are in none
    /// any more. Until now they were held in either, so that nothing else changes.
    pub(crate) fn move_held(
        &mut self,
        rule: &Rule,
        now: Now,
        (tag, units): (u64, u64),
        place: Place,
    ) -> Option<u64> {
        let newest = self.state.newest();
        let second = self.clone().open(rule, now).ok()?.bound?;
        if !second.has(tag, units) || now.is_exceeded_by(newest) {
            return None;
        }
        let mut slots = self.bound.as_ref()?.slots.clone();
        remove(&mut slots, tag, units).filter(|until| *until != place.until)?;
        let moved = add(&mut slots, units, place, now.micros.max(newest))?;
        self.bound.as_mut()?.slots = slots;
        Some(moved)
    }
}

type Slots = SmallVec<[Slot; Bound::MAX_SLOTS]>;

/// Adds units to the slot that ends then, to a new one, or to one that ends later.
fn add(slots: &mut Slots, units: u64, place: Place, at: u64) -> Option<u64> {
    let Place { until, tag } = place;
    if !place.is_after(at) {
        return None;
    }
    let is_free = slots.len() < Bound::MAX_SLOTS && slots.iter().all(|slot| slot.tag != tag);
    let place = slots.partition_point(|slot| slot.until < until);
    match slots.get_mut(place) {
        Some(slot) if slot.until == until || !is_free => {
            slot.units += units;
            Some(slot.tag)
        }
        _ if is_free => {
            slots.insert(place, Slot { until, units, tag });
            Some(tag)
        }
        _ => None,
    }
}

/// Takes units out of the slot of this tag, if they are in it, and says when it ends.
fn remove(slots: &mut Slots, tag: u64, units: u64) -> Option<u64> {
    let slot = slots.iter_mut().find(|slot| slot.tag == tag && slot.units >= units)?;
    let until = slot.until;
    slot.units -= units;
    slots.retain(|slot| slot.units > 0);
    Some(until)
}
