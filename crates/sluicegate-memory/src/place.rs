//! Where the state of a policy is, or would be.

use crate::cell::{Cell, StateOf};
use crate::fingerprint::Fingerprint;
use crate::lock::Guard;
use crate::registry::{Full, Registry};
use crate::seat::SeatOf;
use crate::shard::Shard;

/// Where the state of a policy is, or would be, in its locked shard.
pub(crate) struct PlaceOf<'s, C: Cell> {
    seat: &'s SeatOf<C>,
    fingerprint: Fingerprint,
    shard: Guard<'s, Shard<C>>,
    found: Option<usize>,
}

impl<'s, C: Cell> PlaceOf<'s, C> {
    pub(crate) fn lock(seat: &'s SeatOf<C>, fingerprint: Fingerprint) -> Self {
        let shard = seat.table.lock(fingerprint);
        let found = shard.find(fingerprint).ok();
        Self { seat, fingerprint, shard, found }
    }

    pub(crate) const fn is_found(&self) -> bool {
        self.found.is_some()
    }

    /// Takes the state that is kept.
    pub(crate) fn take(&mut self) -> Option<StateOf<C>> {
        let index = self.found?;
        Some(self.shard.cell_mut(index).take(self.seat.table.scales()))
    }

    /// Keeps a state; gives whether it is one more than before.
    pub(crate) fn keep(&mut self, state: StateOf<C>, now: u64) -> bool {
        let SeatOf { table, rule, tag, .. } = self.seat;
        let Some(tag) = C::tag_of(&state, rule, *tag, table.scales()) else {
            return false;
        };
        match self.found {
            Some(index) => {
                self.shard.cell_mut(index).put(state, tag);
                false
            }
            None => {
                table.insert(&mut self.shard, self.fingerprint, C::new(state, tag), now);
                true
            }
        }
    }

    pub(crate) fn forget(&mut self) {
        if let Some(index) = self.found.take() {
            self.seat.table.remove(&mut self.shard, index);
        }
    }

    pub(crate) fn make_room(&mut self, registry: &Registry, now: u64) -> Result<(), Full> {
        registry.make_room(&self.seat.table, &mut self.shard, now)
    }
}
