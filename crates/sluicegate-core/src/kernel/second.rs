//! The second bound of a bucket at the evaluation time.

use smallvec::SmallVec;

use super::bound::{Bound, Place, Slots, add, remove};
use super::slot::{Slot, total};
use super::{Account, Charge, Leased, Now, Overflow, Rule, State, bucket};

/// The second bound at the evaluation time.
#[derive(Clone, Debug)]
pub(crate) struct Second<'r> {
    pub(crate) account: Account<'r>,
    slots: Slots,
}

impl<'r> Second<'r> {
    /// Advances a bound to the evaluation time; `None` if no unit is held any more. Units of this
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

    /// Creates the bound of a bucket without earlier holds: its used units.
    pub(crate) fn of(account: &Account<'r>) -> Self {
        Self { account: account.clone(), slots: SmallVec::new() }
    }

    /// Returns the bound to store; `None` if no unit is held any more.
    pub(crate) fn into_bound(self) -> Option<Bound> {
        let Some(State::Bucket(state)) = self.account.into_state() else { return None };
        let bound = Bound { deficit: state.deficit, slots: self.slots };
        (!bound.slots.is_empty()).then_some(bound)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts held and leased units as used.
    pub(crate) fn pin(&mut self, leased: u64) {
        self.account.pin(leased.saturating_add(total(&self.slots)));
    }

    /// Charges the bucket's charge. Held units may be used before another caller acts later.
    pub(crate) fn charge(&mut self, charge: Charge, leased: u64) -> Result<(), Overflow> {
        match charge {
            Charge::Admitted { cost, act_in } if act_in > 0 => {
                let outstanding = leased.saturating_add(total(&self.slots));
                let cost = cost.saturating_add(outstanding);
                let _ = self.account.refund(outstanding);
                self.account.charge(Charge::Admitted { cost, act_in })
            }
            charge => self.account.charge(charge),
        }
    }

    /// Checks that [`Second::charge`] would succeed.
    pub(crate) fn can_charge(&self, charge: Charge, leased: u64) -> Result<(), Overflow> {
        self.clone().charge(charge, leased)
    }

    /// Puts units into a slot and returns its tag; `None` if no slot is free for them.
    pub(crate) fn hold(&mut self, units: u64, place: Place) -> Option<u64> {
        add(&mut self.slots, units, place, self.account.judged_at())
    }

    /// Returns `true` if the units are in the slot with this tag.
    pub(crate) fn has(&self, tag: u64, units: u64) -> bool {
        self.slots.iter().any(|slot| slot.tag == tag && slot.units >= units)
    }

    /// Takes units out of the slot with this tag, and returns `true` if they were in it.
    pub(crate) fn release(&mut self, tag: u64, units: u64) -> bool {
        remove(&mut self.slots, tag, units).is_some()
    }
}
