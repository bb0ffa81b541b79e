//! A key's entry in the table of a policy, there or not.

use crate::cell::{Cell, StateOf};
use crate::fingerprint::Fingerprint;
use crate::lock::Guard;
use crate::opened_policy::OpenedPolicy;
use crate::registry::{Full, Registry};
use crate::shard::Shard;

/// A key's entry in the table of a policy, there or not, with its shard locked.
pub(crate) struct Entry<'s, C: Cell> {
    policy: &'s OpenedPolicy<C>,
    fingerprint: Fingerprint,
    shard: Guard<'s, Shard<C>>,
    found: Option<usize>,
}

impl<'s, C: Cell> Entry<'s, C> {
    pub(crate) fn lock(policy: &'s OpenedPolicy<C>, fingerprint: Fingerprint) -> Self {
        let shard = policy.table.lock(fingerprint);
        let found = shard.find(fingerprint).ok();
        Self { policy, fingerprint, shard, found }
    }

    pub(crate) const fn is_found(&self) -> bool {
        self.found.is_some()
    }

    /// Takes the state that is kept.
    pub(crate) fn take(&mut self) -> Option<StateOf<C>> {
        let index = self.found?;
        Some(self.shard.cell_mut(index).take(self.policy.table.scales()))
    }

    /// Keeps a state; gives whether it is one more than before.
    pub(crate) fn keep(&mut self, state: StateOf<C>, now: u64) -> bool {
        let OpenedPolicy { table, rule, tag, .. } = self.policy;
        let (state, tag) = C::tagged(state, rule, *tag, table.scales());
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
            self.policy.table.remove(&mut self.shard, index);
        }
    }

    pub(crate) fn make_room(&mut self, registry: &Registry, now: u64) -> Result<(), Full> {
        registry.make_room(&self.policy.table, &mut self.shard, now)
    }
}
