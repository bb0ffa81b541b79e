//! A state and its outstanding units at the evaluation time.

use super::bound::{Bound, Place, add, remove};
use super::slot::{Slot, bring_near, total};
use super::{Account, Leased, Now, Overflow, Rule, Second};

/// A state and its outstanding units at the evaluation time.
pub(crate) struct Opened<'r> {
    pub(crate) account: Account<'r>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) bound: Option<Second<'r>>,
    pub(crate) restamped: bool,
}

impl Leased {
    /// Advances the state to the evaluation time, and returns the outstanding units with it. A full
    /// bucket has no held units any more.
    pub(crate) fn open<'r>(mut self, rule: &'r Rule, now: Now) -> Result<Opened<'r>, Overflow> {
        if let Some(bound) = self.bound.as_mut().filter(|_| now.is_exceeded_by(self.state.newest()))
        {
            bring_near(&mut bound.slots, now.micros, Bound::LONGEST);
        }
        let second = Second::open(rule, &self, now)?;
        let (mut account, slots, restamped) = self.open_first(rule, now)?;
        let bound = second.filter(|_| account.report().reset > 0);
        if bound.is_some() {
            account.pin(total(&slots));
        }
        Ok(Opened { account, slots, bound, restamped })
    }

    /// Moves held units to another slot and returns its tag; `None` if they stay in their slot or
    /// are in none.
    ///
    /// Until now the units were held in either slot, so nothing else changes.
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
