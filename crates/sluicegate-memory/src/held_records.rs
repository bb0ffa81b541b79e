//! What is held of a subject.

use sluicegate_core::for_stores::{Book, Identity, growth};
use sluicegate_core::kernel::{Bound, Now};
use sluicegate_core::{Ban, Limit, ListedKey, Request};

/// The records of what is held of a subject, and the second bounds of its buckets: a bucket's own cell has
/// no room for its bound, and a mark that there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldRecords {
    pub(crate) book: Book,
    pub(crate) bounds: Vec<(Identity, Bound)>,
    /// Who is banned: elsewhere a fingerprint is all that is kept of a key. Rare, so it is a pointer.
    banned: Option<Box<ListedKey>>,
}

impl HeldRecords {
    /// What a bound takes on the heap.
    pub(crate) const BOUND_BYTES: usize = size_of::<(Identity, Bound)>();

    /// What it takes on the heap to say who is banned, at most.
    const BANNED_BYTES: usize = size_of::<ListedKey>() + ListedKey::MOST_HEAP_BYTES;

    /// Notes whose it is while a ban lasts.
    pub(crate) fn name(&mut self, key: &[u8], now: u64) {
        let is_banned = self.book.ban().is_some_and(|ban| ban.rest(now).is_some());
        if is_banned {
            self.banned.get_or_insert_with(|| Box::new(ListedKey::of(key)));
        } else {
            self.banned = None;
        }
    }

    /// Who is banned, and for how many µs.
    pub(crate) fn banned(&self, ban: &Ban, now: Now) -> Option<(&ListedKey, u64)> {
        let (state, _) = self.book.ban()?.restamped(ban, now);
        Some((self.banned.as_deref()?, state.rest(now.micros)?))
    }

    /// The bytes that a request adds at most; `None` if it adds nothing.
    pub(crate) fn growth_bytes(
        &self,
        limit: &Limit,
        request: &Request<'_>,
        part: usize,
    ) -> Option<usize> {
        let names = limit.ban(part).is_some() && self.banned.is_none();
        let naming = if names { Self::BANNED_BYTES } else { 0 };
        growth(limit, request, part, &self.book).map(|bytes| bytes + naming)
    }

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
        self.banned = None;
        self.book.forget_holds() || has_bounds
    }

    /// The bytes that it takes on the heap, itself among them.
    pub(crate) fn heap_bytes(&self) -> usize {
        let banned =
            self.banned.as_ref().map_or(0, |key| size_of::<ListedKey>() + key.heap_bytes());
        let bounds = self.bounds.len() * Self::BOUND_BYTES;
        size_of::<Self>() + self.book.heap_bytes() + bounds + banned
    }
}
