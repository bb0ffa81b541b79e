//! What is held of a subject.

use sluicegate_core::kernel::Bound;
use sluicegate_core::{Book, Identity};

/// The records of what is held of a subject, and the second bounds of its buckets: a bucket's own cell has
/// no room for its bound, and a mark that there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) book: Book,
    pub(crate) bounds: Vec<(Identity, Bound)>,
}

impl Shelf {
    /// What a bound takes on the heap.
    pub(crate) const BOUND_BYTES: usize = size_of::<(Identity, Bound)>();

    /// When the last of it ends, in µs since the epoch.
    pub(crate) fn last_end(&self) -> u64 {
        let bounds = self.bounds.iter().filter_map(|(_, bound)| bound.slots.last());
        bounds.map(|slot| slot.until).max().unwrap_or(0).max(self.book.last_end())
    }

    /// Takes the bound of a policy's state.
    pub(crate) fn take_bound(&mut self, identity: Identity) -> Option<Bound> {
        let index = self.bounds.iter().position(|(other, _)| *other == identity)?;
        Some(self.bounds.swap_remove(index).1)
    }

    /// Forgets all but the ids of requests. Gives whether anything was held.
    pub(crate) fn forget_holds(&mut self) -> bool {
        let has_bounds = !self.bounds.is_empty();
        self.bounds = Vec::new();
        self.book.forget_holds() || has_bounds
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.book.heap_bytes() + self.bounds.len() * Self::BOUND_BYTES
    }
}
