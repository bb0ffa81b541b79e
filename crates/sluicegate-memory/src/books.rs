//! What is held of a request's subjects, and known of requests by their ids, in the tables of a limit's parts.

use std::iter::Peekable;
use std::ops::Add as _;

use smallvec::{IntoIter, SmallVec};

use sluicegate_core::kernel::Now;
use sluicegate_core::{Action, Book, Limit, Operation, Request};

use crate::budget::Load;
use crate::cell::BookCell;
use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::held_records::HeldRecords;
use crate::opened_policy::OpenedPolicy;

/// The books of a request's subjects, one for each part of the limit; none if the request is not about
/// what is held and has no id.
#[derive(Default)]
pub(crate) struct Books<'o>(SmallVec<[Option<Entry<'o, BookCell>>; 1]>);

/// The tables that are still to be locked, each with its part, in the order of their numbers.
pub(crate) type Unlocked<'o> = Peekable<IntoIter<[(usize, &'o OpenedPolicy<BookCell>); 1]>>;

impl<'o> Books<'o> {
    /// What has to be locked, for these tables.
    pub(crate) fn unlocked(&mut self, tables: &'o [OpenedPolicy<BookCell>]) -> Unlocked<'o> {
        self.0.resize_with(tables.len(), || None);
        let mut tables: SmallVec<[_; 1]> = tables.iter().enumerate().collect();
        tables.sort_by_key(|(_, table)| table.table.id());
        tables.into_iter().peekable()
    }

    /// Locks those whose number is below another one.
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

    /// Whether they are not locked.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn entries(&mut self) -> impl Iterator<Item = &mut Entry<'o, BookCell>> {
        self.0.iter_mut().flatten()
    }

    /// Takes what is held; each has to be [written](Books::write), changed or not.
    pub(crate) fn take(&mut self) -> SmallVec<[Box<HeldRecords>; 1]> {
        self.entries().map(|entry| entry.take().unwrap_or_default()).collect()
    }

    /// The room that a request may need for another record or ticket, denial or place in line in each, and so many bounds.
    pub(crate) fn needed(
        &mut self,
        limit: &Limit,
        request: &Request<'_>,
        shelves: &[Box<HeldRecords>],
        bounds: usize,
    ) -> Load {
        if request.holds().is_some() || request.asks_once().is_some() {
            let needed = self.entries().zip(shelves).map(|(entry, shelf)| entry.needs_more(shelf));
            let bounds = Load { keys: 0, bytes: bounds * HeldRecords::BOUND_BYTES };
            return needed.fold(bounds, Load::add);
        }
        let has_place = request.place_id().is_some();
        let may_deny = matches!(
            request.action(),
            Action::Decide(
                Operation::Check
                    | Operation::Reserve { .. }
                    | Operation::TakeUpTo
                    | Operation::Ban { .. }
            )
        );
        let entries = self.entries().zip(shelves).enumerate();
        let growing = entries.filter_map(|(part, (entry, shelf))| {
            let counts = may_deny && limit.ban(part).is_some();
            let denial = if counts { shelf.denial_bytes() } else { 0 };
            let place = if has_place { Book::line_growth_bytes() } else { 0 };
            let bytes = denial + place;
            let needed = || entry.needs_slot(shelf) + Load { keys: 0, bytes };
            (counts || has_place).then(needed)
        });
        growing.fold(Load::NONE, Load::add)
    }

    /// The room that is needed to keep those that have changed.
    pub(crate) fn needed_for(&mut self, shelves: &[Box<HeldRecords>], changed: u64) -> Load {
        let shelves = self.entries().zip(shelves).enumerate();
        let changed = shelves.filter(|(part, _)| changed & (1 << part) != 0);
        changed.map(|(_, (entry, shelf))| entry.needs_for(shelf)).fold(Load::NONE, Load::add)
    }

    /// Keeps what changed, puts the rest back, and gives the room that was taken.
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
