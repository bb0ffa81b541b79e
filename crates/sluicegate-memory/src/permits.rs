//! The fast path of permits: takes and releases them under a limit whose only policy is a plain
//! policy of permits.

use sluicegate_core::for_stores::{Book, release_permits, take_permits};
use sluicegate_core::kernel::permits::Permits;
use sluicegate_core::{Cost, Decision, Error, Hold, HoldId, Operation, Request, Timestamp};

use crate::budget::{Load, Room};
use crate::cell::{BookCell, PlainCell};
use crate::fingerprint::Fingerprint;
use crate::general;
use crate::opened::MemoryLimit;
use crate::opened_policy::OpenedPolicy;
use crate::shard::Shard;
use crate::table::Table;

/// The action of the fast path.
enum Act<'r> {
    Take(&'r Hold, Cost),
    Release(HoldId),
}

/// A change of a book in its locked shard. Dropping it counts the changed size.
struct Change<'b> {
    book: &'b mut Book,
    table: &'b Table<BookCell>,
    room: Room<'b>,
    /// The size of the book's records before.
    before: usize,
}

/// Answers a request, with the same result as [`sluicegate_core::for_stores::step_with_books`].
///
/// The general path handles the first permit of a subject, requests to a full store, and all
/// requests that take or release no permit.
pub(crate) fn decide(
    opened: &MemoryLimit,
    request: &Request<'_>,
    fingerprint: Fingerprint,
    given: Option<Timestamp>,
) -> Result<Decision, Error> {
    if let Some(policy) = opened.straight_permits()
        && let Some(act) = Act::of(request, policy)
        && let Some(books) = opened.books().first()
    {
        let (limit, rule) = (opened.limit(), &policy.rule);
        // A policy of permits stores nothing in its own table, so that table isn't locked.
        let mut shard = books.table.lock(fingerprint);
        let now = opened.now(given);
        if let Some(mut change) = Change::of(&books.table, &mut shard, fingerprint) {
            match act {
                Act::Take(hold, cost) if change.has_room() => {
                    return take_permits(limit, rule, (hold, cost), now, change.book);
                }
                Act::Take(..) => {}
                Act::Release(id) => {
                    if let Some(released) = release_permits(limit, rule, id, now, change.book) {
                        return Ok(released);
                    }
                }
            }
        }
    }
    general::decide(opened, request, fingerprint, given)
}

impl<'r> Act<'r> {
    #[inline]
    fn of(request: &Request<'r>, policy: &OpenedPolicy<PlainCell<Permits>>) -> Option<Self> {
        let is_plain = request.further_subjects().is_empty()
            && request.idempotency().is_none()
            && request.ticket().is_none()
            && request.leases().is_none();
        match (request.operation(), request.holds()) {
            (Operation::Check, Some(hold)) if is_plain => {
                Some(Self::Take(hold, policy.plain_cost(request.cost())?))
            }
            (Operation::Settle { id, used: [] }, None) if is_plain => Some(Self::Release(id)),
            _ => None,
        }
    }
}

impl<'b> Change<'b> {
    /// Starts a change; `None` if the subject has no book, or has pauses.
    #[inline]
    fn of(
        table: &'b Table<BookCell>,
        shard: &'b mut Shard<BookCell>,
        fingerprint: Fingerprint,
    ) -> Option<Self> {
        let index = shard.find(fingerprint).ok()?;
        let book = shard.cell_mut(index).book_mut().filter(|book| book.paused_until() == 0)?;
        let before = book.records_bytes();
        Some(Self { book, table, room: Room::none(table.budget()), before })
    }

    /// Reserves the capacity that another permit may need, and returns whether it succeeded.
    #[inline]
    fn has_room(&mut self) -> bool {
        let bytes = self.book.permit_growth_bytes();
        self.room.try_fill(Load { keys: 0, bytes }).is_ok()
    }
}

impl Drop for Change<'_> {
    #[inline]
    fn drop(&mut self) {
        let (before, after) = (self.before, self.book.records_bytes());
        self.table.count_heap(before, after);
        self.room.spend(Load { keys: 0, bytes: after.saturating_sub(before) });
        self.table.budget().release(Load { keys: 0, bytes: before.saturating_sub(after) });
    }
}
