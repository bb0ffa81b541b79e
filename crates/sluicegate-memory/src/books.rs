//! What is held of a request's subjects, in the tables of a limit's parts.

use std::iter::Peekable;
use std::ops::Add as _;

use smallvec::{IntoIter, SmallVec};

use sluicegate_core::kernel::Now;
use sluicegate_core::{Book, Request};

use crate::budget::Load;
use crate::cell::BookCell;
use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::opened_policy::OpenedPolicy;

/// The books of a request's subjects, one for each part of the limit; none if the request is not about
/// what is held.
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

    pub(crate) fn entries(&mut self) -> impl Iterator<Item = &mut Entry<'o, BookCell>> {
        self.0.iter_mut().flatten()
    }

    /// Takes the books; each has to be [written](Books::write), changed or not.
    pub(crate) fn take(&mut self) -> SmallVec<[Book; 1]> {
        self.entries().map(|entry| entry.take().unwrap_or_default()).collect()
    }

    /// The room that a request may need for another record in each.
    pub(crate) fn needed(&mut self, request: &Request<'_>, books: &[Book]) -> Load {
        if request.holds().is_none() {
            return Load::NONE;
        }
        let needed = self.entries().zip(books).map(|(entry, book)| entry.needs_more(book));
        needed.fold(Load::NONE, Load::add)
    }

    /// Keeps what changed, puts the rest back, and gives the room that was taken.
    pub(crate) fn write(&mut self, books: SmallVec<[Book; 1]>, changed: u64, now: Now) -> Load {
        let mut kept = Load::NONE;
        for (part, (entry, book)) in self.entries().zip(books).enumerate() {
            if entry.is_found() || changed & (1 << part) != 0 {
                kept += entry.keep(book, now.micros);
            }
        }
        kept
    }
}
