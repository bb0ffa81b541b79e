//! A key's entry in the table of a policy, existing or not.

use crate::budget::{Load, Room};
use crate::cell::Cell;
use crate::fingerprint::Fingerprint;
use crate::lock::Guard;
use crate::opened_policy::OpenedPolicy;
use crate::registry::{Full, Place, Registry};
use crate::shard::Shard;
use crate::table::Table;

/// A key's entry in the table of a policy, existing or not, with its shard locked.
pub(crate) struct Entry<'s, C: Cell> {
    policy: &'s OpenedPolicy<C>,
    fingerprint: Fingerprint,
    shard: Guard<'s, Shard<C>>,
    found: Option<usize>,
    /// Bytes outside the slot when the state was found.
    heap: usize,
}

impl<'s, C: Cell> Entry<'s, C> {
    pub(crate) fn lock(policy: &'s OpenedPolicy<C>, fingerprint: Fingerprint) -> Self {
        let shard = policy.table.lock(fingerprint);
        let found = shard.find(fingerprint).ok();
        let heap = found.map_or(0, |index| shard.cell(index).heap_bytes());
        Self { policy, fingerprint, shard, found, heap }
    }

    pub(crate) const fn is_found(&self) -> bool {
        self.found.is_some()
    }

    /// Returns whether the state has a [second bound](crate::held_records).
    pub(crate) fn is_marked(&self) -> bool {
        self.found.is_some_and(|index| self.shard.cell(index).is_marked())
    }

    /// Takes the stored state.
    pub(crate) fn take(&mut self) -> Option<C::State> {
        let index = self.found?;
        Some(self.shard.cell_mut(index).take(self.policy.table.scales()))
    }

    /// Returns the capacity that a request may need for the subject; `state` is the state that was
    /// taken, if any.
    pub(crate) fn needs(&self, state: Option<&C::State>) -> Load {
        match state {
            Some(state) if self.is_found() => Load { keys: 0, bytes: C::growth_bytes(state) },
            _ => Table::<C>::FIRST_LOAD,
        }
    }

    /// Returns the capacity for a new state; nothing if the entry exists.
    pub(crate) fn needs_slot(&self, state: &C::State) -> Load {
        if self.is_found() { Load::NONE } else { self.needs_for(state) }
    }

    /// Returns the capacity needed to store a state.
    pub(crate) fn needs_for(&self, state: &C::State) -> Load {
        let heap = C::heap_bytes_of(state);
        match self.found {
            Some(_) => Load { keys: 0, bytes: heap.saturating_sub(self.heap) },
            None => Table::<C>::FIRST_LOAD + Load { keys: 0, bytes: heap },
        }
    }

    /// Stores a state, with a mark or not, and returns the capacity that it took.
    pub(crate) fn keep(&mut self, state: C::State, now: u64, is_marked: bool) -> Load {
        let OpenedPolicy { table, rule, tag, .. } = self.policy;
        let taken = self.needs_for(&state);
        let (state, tag) = C::tagged(state, rule, *tag, table.scales());
        let tag = tag.marked(is_marked);
        match self.found {
            Some(index) => {
                let cell = self.shard.cell_mut(index);
                cell.put(state, tag);
                let (before, after) = (self.heap, cell.heap_bytes());
                table.count_heap(before, after);
                table.budget().release(Load { keys: 0, bytes: before.saturating_sub(after) });
                self.heap = after;
            }
            None => table.insert(&mut self.shard, self.fingerprint, C::new(state, tag), now),
        }
        taken
    }

    pub(crate) fn forget(&mut self) {
        if let Some(index) = self.found.take() {
            // The bytes that were taken out of the cell were counted with it.
            let left = self.shard.cell(index).heap_bytes();
            self.policy.table.count_heap(self.heap, left);
            let gone = Load { keys: 0, bytes: self.heap.saturating_sub(left) };
            self.policy.table.budget().release(gone);
            self.policy.table.remove(&mut self.shard, index);
        }
    }

    pub(crate) fn make_room(
        &mut self,
        registry: &Registry,
        now: u64,
        room: &mut Room<'_>,
        needed: Load,
    ) -> Result<(), Full> {
        let Self { policy, fingerprint, shard, .. } = self;
        let place = Place { table: &policy.table, shard, fingerprint: *fingerprint };
        let made = registry.make_room(place, now, room, needed);
        // Evictions from the same shard move the other slots.
        self.found = self.found.and_then(|_| self.shard.find(self.fingerprint).ok());
        made
    }
}
