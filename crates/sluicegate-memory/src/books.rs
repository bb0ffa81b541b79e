//! The books of a request's subjects: their held records and the ids of their requests.

use std::iter::Peekable;
use std::ops::Add as _;

use smallvec::{IntoIter, SmallVec};

use sluicegate_core::kernel::Now;
use sluicegate_core::{Limit, Request};

use crate::budget::Load;
use crate::cell::BookCell;
use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::held_records::HeldRecords;
use crate::opened_policy::OpenedPolicy;

/// The books of a request's subjects, one for each part of the limit. Empty for a request that has
/// no id and concerns no held records.
#[derive(Default)]
pub(crate) struct Books<'o>(SmallVec<[Option<Entry<'o, BookCell>>; 1]>);

/// The tables still to lock, each with its part, in the order of their numbers.
pub(crate) type Unlocked<'o> = Peekable<IntoIter<[(usize, &'o OpenedPolicy<BookCell>); 1]>>;

impl<'o> Books<'o> {
    /// Returns the tables to lock, in lock order.
    pub(crate) fn unlocked(&mut self, tables: &'o [OpenedPolicy<BookCell>]) -> Unlocked<'o> {
        self.0.resize_with(tables.len(), || None);
        let mut tables: SmallVec<[_; 1]> = tables.iter().enumerate().collect();
        tables.sort_by_key(|(_, table)| table.table.id());
        tables.into_iter().peekable()
    }

    /// Locks the tables with numbers smaller than `below`.
    pub(crate) fn lock(
        &mut self,
        tables: &mut Unlocked<'o>,
        fingerprints: &[Fingerprint],
        below: u64,
    ) {
        while let Some((part, table)) = tables.next_if(|(_, table)| table.table.id() < below) {
            self.0[part] = Some(Entry::lock(table, fingerprints[part]));
        }
    }

    /// Returns whether no book is locked.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn entries(&mut self) -> impl Iterator<Item = &mut Entry<'o, BookCell>> {
        self.0.iter_mut().flatten()
    }

    /// Takes the held records. All must be [written](Books::write) back, changed or not.
    pub(crate) fn take(&mut self) -> SmallVec<[Box<HeldRecords>; 1]> {
        self.entries().map(|entry| entry.take().unwrap_or_default()).collect()
    }

    /// Returns the capacity that a request may need for its effects on each book, for `bounds`
    /// second bounds, and for a lease.
    pub(crate) fn needed(
        &mut self,
        limit: &Limit,
        request: &Request<'_>,
        shelves: &[Box<HeldRecords>],
        bounds: usize,
    ) -> Load {
        let bounds = if request.holds().is_some() { bounds * HeldRecords::BOUND_BYTES } else { 0 };
        let leases = if request.leases().is_some() { HeldRecords::LEASE_BYTES } else { 0 };
        let outside = Load { keys: 0, bytes: bounds + leases };
        let entries = self.entries().zip(shelves).enumerate();
        let growing = entries.filter_map(|(part, (entry, shelf))| {
            let bytes = shelf.growth_bytes(limit, request, part)?;
            Some(entry.needs_slot(shelf) + Load { keys: 0, bytes })
        });
        growing.fold(outside, Load::add)
    }

    /// Returns the capacity needed to store the changed books.
    pub(crate) fn needed_for(&mut self, shelves: &[Box<HeldRecords>], changed: u64) -> Load {
        let shelves = self.entries().zip(shelves).enumerate();
        let changed = shelves.filter(|(part, _)| changed & (1 << part) != 0);
        changed.map(|(_, (entry, shelf))| entry.needs_for(shelf)).fold(Load::NONE, Load::add)
    }

    /// Stores changed books, puts the others back, and returns the capacity that was used.
    pub(crate) fn write(
        &mut self,
        shelves: SmallVec<[Box<HeldRecords>; 1]>,
        changed: u64,
        now: Now,
    ) -> Load {
        let mut kept = Load::NONE;
        for (part, (entry, shelf)) in self.entries().zip(shelves).enumerate() {
            if entry.is_found() || changed & (1 << part) != 0 {
                kept += entry.keep(shelf, now.micros, false);
            }
        }
        kept
    }
}
