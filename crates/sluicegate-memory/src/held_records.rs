//! The held records of a subject.

use sluicegate_core::for_stores::{Book, Identity, growth};
use sluicegate_core::kernel::{Bound, Leased, Now, Slot};
use sluicegate_core::{Ban, Limit, ListedKey, Request};

/// The held records of a subject, and the second bounds and leases of its buckets. A bucket's own
/// cell is too small for these, and only has a mark that there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldRecords {
    pub(crate) book: Book,
    pub(crate) bounds: Vec<(Identity, Bound)>,
    /// The slots of leased shares, in the order in which they end.
    pub(crate) leases: Vec<(Identity, Box<[Slot]>)>,
    /// The banned key, for listing; other entries keep only a fingerprint. Boxed because bans are
    /// rare.
    banned: Option<Box<ListedKey>>,
}

impl HeldRecords {
    /// Heap bytes of a bound.
    pub(crate) const BOUND_BYTES: usize = size_of::<(Identity, Bound)>();

    /// Maximum heap bytes of the leases of a policy.
    pub(crate) const LEASE_BYTES: usize =
        size_of::<(Identity, Box<[Slot]>)>() + Leased::MAX_SLOTS * size_of::<Slot>();

    /// Maximum heap bytes of the banned key.
    const BANNED_BYTES: usize = size_of::<ListedKey>() + ListedKey::MOST_HEAP_BYTES;

    /// Records the key while it is banned.
    pub(crate) fn name(&mut self, key: &[u8], now: u64) {
        let is_banned = self.book.ban().is_some_and(|ban| ban.rest(now).is_some());
        if is_banned {
            self.banned.get_or_insert_with(|| Box::new(ListedKey::of(key)));
        } else {
            self.banned = None;
        }
    }

    /// Returns the banned key, and the rest and the age of its ban in µs.
    pub(crate) fn banned(&self, ban: &Ban, now: Now) -> Option<(&ListedKey, u64, u64)> {
        let (state, _) = self.book.ban()?.restamped(ban, now);
        Some((self.banned.as_deref()?, state.rest(now.micros)?, state.age(now.micros)))
    }

    /// Returns the maximum number of bytes that a request adds; `None` if it adds nothing.
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

    /// Returns the end of the last record, bound or lease, in µs since the epoch.
    pub(crate) fn last_end(&self) -> u64 {
        let bounds = self.bounds.iter().filter_map(|(_, bound)| bound.slots.last());
        let leases = self.leases.iter().filter_map(|(_, slots)| slots.last());
        bounds.chain(leases).map(|slot| slot.until).max().unwrap_or(0).max(self.book.last_end())
    }

    /// Takes the bound of a policy's state.
    pub(crate) fn take_bound(&mut self, identity: Identity) -> Option<Bound> {
        take(&mut self.bounds, identity)
    }

    /// Takes the leases of a policy's state.
    pub(crate) fn take_leases(&mut self, identity: Identity) -> Option<Vec<Slot>> {
        take(&mut self.leases, identity).map(<[Slot]>::into_vec)
    }

    /// Forgets everything except the ids of requests and the leases, and returns whether there were held records.
    pub(crate) fn forget_holds(&mut self) -> bool {
        let has_bounds = !self.bounds.is_empty();
        self.bounds = Vec::new();
        self.banned = None;
        self.book.forget_holds() || has_bounds
    }

    /// Returns the heap bytes of the records, including this struct.
    pub(crate) fn heap_bytes(&self) -> usize {
        let banned =
            self.banned.as_ref().map_or(0, |key| size_of::<ListedKey>() + key.heap_bytes());
        let bounds = self.bounds.len() * Self::BOUND_BYTES;
        let slots: usize = self.leases.iter().map(|(_, slots)| slots.len()).sum();
        let leases =
            self.leases.len() * size_of::<(Identity, Box<[Slot]>)>() + slots * size_of::<Slot>();
        size_of::<Self>() + self.book.heap_bytes() + bounds + leases + banned
    }
}

/// Takes what belongs to the state of a policy.
fn take<T>(list: &mut Vec<(Identity, T)>, identity: Identity) -> Option<T> {
    let index = list.iter().position(|(other, _)| *other == identity)?;
    Some(list.swap_remove(index).1)
}
