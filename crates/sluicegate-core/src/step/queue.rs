//! Permits and their queue. Units in flight count before a decision. A request that must wait gets
//! a ticket with the decision, and keeps it until it is allowed or leaves.

use super::judge::Judge;
use super::{Call, Step};
use crate::book::Book;
use crate::book::tickets::{Place, TicketRecord};
use crate::hold::{Hold, HoldId};
use crate::kernel::permits::Permits;
use crate::kernel::{Account, Now, Rule};
use crate::limit::{Identity, Limit};
use crate::policy::Enforcement;
use crate::request::{Operation, Request};
use crate::ticket::Queued;

/// The change of a request's ticket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Queueing {
    /// The ticket is unchanged, or there is none.
    Nothing,
    /// The ticket ends, because the request is allowed.
    Ends { part: usize },
    /// The request gets the ticket, or its ticket is extended.
    Waits { part: usize, record: TicketRecord },
    /// A store has already issued the ticket.
    Waited,
    /// The queue is full.
    Full,
}

/// Before the decision: counts the units in flight and the waiters, for each policy that limits
/// them.
pub(super) fn before(call: Call<'_>, judge: &mut Judge<'_>, books: &[Book]) {
    let Call { request, operation, now, .. } = call;
    let limit = judge.limit();
    if books.is_empty() || operation == Operation::Reset {
        return;
    }
    let new_end = request.holds().map_or(0, |hold| now.after(hold.lasts));
    for (index, member) in limit.members().iter().enumerate() {
        let Rule::Permits(permits) = member.policy().rule() else { continue };
        if matches!(judge.accounts[index], Account::Read(_)) {
            // The store has counted them.
            continue;
        }
        // An operation that takes up to its cost asks for one unit if none is free.
        let cost = match operation {
            Operation::Take => 1,
            _ => request.cost_of(limit, index),
        };
        let book = &books[member.part()];
        let identity = member.identity();
        let mut flight = book.flight(permits, identity, now.micros, (cost, new_end));
        if member.has_queue() {
            let (place, own) = place(request, permits, identity, now, book);
            let free = permits.free(flight.in_flight);
            flight.waiting = book.tickets().waiting(free, now.micros, place, own);
        }
        judge.accounts[index] = Account::in_flight(permits, flight);
    }
}

/// Determines the change of a request's ticket, with the charge, and counts it. Nothing is written
/// yet.
pub(super) fn charge(
    call: Call<'_>,
    judge: &mut Judge<'_>,
    allowed: bool,
    books: &[Book],
) -> Queueing {
    let Call { limit, request, now, .. } = call;
    let Some(ticket) = request.ticket() else { return Queueing::Nothing };
    let (Some(hold), Some(index)) = (request.holds(), limit.only_queue()) else {
        return if request.holds().is_none() { Queueing::Waited } else { Queueing::Nothing };
    };
    let member = &limit.members()[index];
    let (part, identity) = (member.part(), member.identity());
    let (Some(book), Rule::Permits(permits)) = (books.get(part), member.policy().rule()) else {
        return Queueing::Nothing;
    };
    if allowed {
        judge.accounts[index].set_own_ticket((0, 0));
        return Queueing::Ends { part };
    }
    let refuses = judge.is_refused_by(index);
    let never = limit.members().iter().enumerate().any(|(index, member)| {
        let policy = member.policy();
        policy.enforcement() == Enforcement::Enforced
            && request.cost_of(limit, index) > policy.rule().limit()
    });
    let own = own_ticket(book, hold, identity, now);
    if never || own.is_none() && !refuses {
        return Queueing::Nothing;
    }
    let place = match own {
        Some(record) => record.place,
        None if book.tickets().has_room(identity, permits.queue(), now.micros) => {
            let priority = ticket.priority.min(permits.priorities() - 1);
            book.tickets().last_place(identity, priority)
        }
        None => return Queueing::Full,
    };
    let until = now.after(ticket.lives);
    let units = request.cost_of(limit, index);
    judge.accounts[index].set_own_ticket((units, until));
    Queueing::Waits { part, record: TicketRecord { place, until, units } }
}

impl Queueing {
    /// Returns `true` if the request waits.
    pub(super) const fn waits(self) -> bool {
        matches!(self, Self::Waits { .. } | Self::Waited)
    }

    /// After the decision: writes the change of the ticket, and reports its position. For a denied
    /// request without a ticket, removes expired tickets if there are more than a request examines.
    pub(super) fn after(self, call: Call<'_>, step: &mut Step, books: &mut [Book]) {
        let Call { limit, request, now, .. } = call;
        let Some(hold) = request.holds() else { return };
        if step.decision.is_denied() && !self.waits() {
            for member in limit.members().iter().filter(|member| member.has_queue()) {
                let book = &mut books[member.part()];
                if book.tickets().ended_are_many(now.micros) {
                    book.change_tickets(|tickets| tickets.remove_ended(now.micros));
                    step.books |= 1 << member.part();
                }
            }
        }
        match (self, request.ticket()) {
            (Self::Full, _) => step.decision.extras_mut().queued = Some(Queued::Full),
            (Self::Ends { part }, _) => {
                books[part].change_tickets(|tickets| {
                    tickets.remove_ended(now.micros);
                    tickets.remove(hold.id);
                });
                step.books |= 1 << part;
            }
            (Self::Waits { part, record }, Some(ticket)) => {
                let ahead = books[part].change_tickets(|tickets| {
                    tickets.remove_ended(now.micros);
                    tickets.put(hold.id, record);
                    tickets.ahead_of(record.place)
                });
                let queued = step.decision.where_it_waits(ticket, ahead);
                step.decision.extras_mut().queued = Some(queued);
                step.books |= 1 << part;
            }
            _ => {}
        }
    }
}

/// Ends the tickets of an id, and returns the parts that had a valid one, as bits.
pub(super) fn leave(limit: &Limit, id: HoldId, now: Now, books: &mut [Book]) -> u64 {
    let mut left = 0;
    for member in limit.members().iter().filter(|member| member.has_queue()) {
        let book = &mut books[member.part()];
        let record = book.tickets().get(id, now.micros);
        if record.is_some_and(|record| record.place.identity == member.identity()) {
            book.change_tickets(|tickets| tickets.remove(id));
            left |= 1 << member.part();
        }
    }
    left
}

/// Returns the waiters that can continue after a decision. For stores that wake them.
///
/// They can continue because units were given back, or because another waiter has continued.
#[must_use]
pub fn called(
    limit: &Limit,
    request: &Request<'_>,
    step: &Step,
    now: Now,
    books: &[Book],
) -> Vec<HoldId> {
    let may_free =
        request.ticket().is_some() || matches!(request.operation(), Operation::Settle { .. });
    if !may_free || step.decision.is_denied() {
        return Vec::new();
    }
    let queues = limit.members().iter().filter(|member| member.has_queue());
    let changed = queues.filter(|member| step.books & (1 << member.part()) != 0);
    let called =
        changed.filter_map(|member| Some(books.get(member.part())?.called(member, now.micros)));
    called.flatten().collect()
}

/// Returns the position of a request under a policy with a queue, and its own ticket. A request
/// without a ticket takes only units that no ticket waits for.
fn place(
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

fn own_ticket<'b>(
    book: &'b Book,
    hold: &Hold,
    identity: Identity,
    now: Now,
) -> Option<&'b TicketRecord> {
    let own = book.tickets().get(hold.id, now.micros);
    own.filter(|record| record.place.identity == identity)
}
