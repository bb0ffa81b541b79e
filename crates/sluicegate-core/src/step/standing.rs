//! Where a request stands in a queue of permits.

use crate::book::Book;
use crate::book::tickets::{Place, TicketRecord};
use crate::hold::{Hold, HoldId};
use crate::kernel::Now;
use crate::kernel::permits::Permits;
use crate::limit::Identity;
use crate::request::Request;

/// Where a request stands under a policy with a queue, and its own ticket. One without a ticket takes what
/// all others leave.
pub(super) fn place(
    request: &Request<'_>,
    permits: &Permits,
    identity: Identity,
    now: Now,
    book: &Book,
) -> (Place, Option<HoldId>) {
    let Some((hold, ticket)) = request.holds().zip(request.ticket()) else {
        return (Place::behind(identity, u8::MAX), None);
    };
    let own = own_ticket(book, hold, identity, now);
    let priority = ticket.priority.min(permits.priorities() - 1);
    let place = own.map_or(Place::behind(identity, priority), |record| record.place);
    (place, Some(hold.id))
}

pub(super) fn own_ticket<'b>(
    book: &'b Book,
    hold: &Hold,
    identity: Identity,
    now: Now,
) -> Option<&'b TicketRecord> {
    let own = book.tickets().get(hold.id, now.micros);
    own.filter(|record| record.place.identity == identity)
}
