//! The fast path of permits: taking and releasing them under a limit that is nothing else.

use sluicegate_core::kernel::Now;
use sluicegate_core::{
    Action, Book, Costs, Decision, Error, Operation, Request, Used, release_permits, take_permits,
};

use crate::budget::{Load, Room};
use crate::fingerprint::Fingerprint;
use crate::opened::MemoryLimit;

/// Answers a check that holds permits, or a settlement that releases them; the same as
/// [`sluicegate_core::step_with_books`] would. `None` for everything else, and for what is rare: the first
/// permit of a subject, and a store that is full.
pub(crate) fn decide(
    opened: &MemoryLimit,
    request: &Request<'_>,
    fingerprint: Fingerprint,
    now: Now,
) -> Option<Result<Decision, Error>> {
    let policy = opened.straight_permits()?;
    let is_plain = request.further_subjects().is_empty()
        && request.asks_once().is_none()
        && request.ticket().is_none()
        && request.leases().is_none();
    if !is_plain {
        return None;
    }
    let (limit, rule) = (opened.limit(), &policy.rule);
    match (request.action(), request.holds(), request.cost()) {
        (Action::Decide(Operation::Check), Some(hold), costs) => {
            let cost = match costs {
                Costs::Own => policy.own_cost,
                Costs::Same(cost) => cost,
                _ => return None,
            };
            in_place(opened, fingerprint, true, |book| {
                Some(take_permits(limit, rule, (hold, cost), now, book))
            })
        }
        (Action::Settle { id, used: Used::AsCharged }, None, _) => {
            in_place(opened, fingerprint, false, |book| {
                release_permits(limit, rule, id, now, book).map(Ok)
            })
        }
        _ => None,
    }
}

/// Changes the book of a subject where it is; `None` if there is none, or no room for a larger one. A policy
/// of permits keeps nothing in its own table: so nobody else has to wait.
fn in_place<T>(
    opened: &MemoryLimit,
    fingerprint: Fingerprint,
    may_grow: bool,
    change: impl FnOnce(&mut Book) -> Option<T>,
) -> Option<T> {
    let table = &*opened.books().first()?.table;
    let mut shard = table.lock(fingerprint);
    let index = shard.find(fingerprint).ok()?;
    let book = shard.cell_mut(index).book_mut();
    let before = book.heap_bytes();
    let mut room = Room::none(table.budget());
    if may_grow {
        let needed = Load { keys: 0, bytes: book.growth_bytes() };
        room.try_fill(needed).ok()?;
    }
    let changed = change(book);
    let after = book.heap_bytes();
    table.count_heap(before, after);
    room.spend(Load { keys: 0, bytes: after.saturating_sub(before) });
    table.budget().release(Load { keys: 0, bytes: before.saturating_sub(after) });
    changed
}
