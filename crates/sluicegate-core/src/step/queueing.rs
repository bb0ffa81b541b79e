//! Who waits for permits: giving tickets, keeping and ending them.

use super::judge::Judge;
use super::standing::own_ticket;
use crate::book::Book;
use crate::book::tickets::TicketRecord;
use crate::decision::Decision;
use crate::hold::HoldId;
use crate::kernel::{Now, Rule};
use crate::limit::Limit;
use crate::policy::Enforcement;
use crate::request::Request;
use crate::ticket::Queued;

/// What becomes of a request's ticket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Queueing {
    /// It stays as it is, or there is none.
    Nothing,
    /// It goes, for the request is allowed.
    Ends { part: usize },
    /// It is given, or lives on.
    Waits { part: usize, record: TicketRecord },
    /// There is no room for it.
    Full,
}

/// Says what becomes of the ticket of a request that has been judged, and counts it. Nothing is written yet.
pub(super) fn queue(
    judge: &mut Judge<'_>,
    request: &Request<'_>,
    allowed: bool,
    now: Now,
    books: &[Book],
) -> Queueing {
    let limit = judge.limit();
    let (Some((hold, ticket)), Some(index)) =
        (request.holds().zip(request.ticket()), limit.only_queue())
    else {
        return Queueing::Nothing;
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
    let until = now.micros.saturating_add(ticket.lives.as_micros());
    let units = request.cost_of(limit, index);
    judge.accounts[index].set_own_ticket((units, until));
    Queueing::Waits { part, record: TicketRecord { place, until, units } }
}

impl Queueing {
    /// Whether the request waits.
    pub(super) const fn waits(self) -> bool {
        matches!(self, Self::Waits { .. })
    }

    /// Lets go of tickets that have ended, where there are more than a request looks at, for one that was denied and has
    /// none itself. Gives the parts whose books have changed, as bits.
    pub(super) fn make_room(self, limit: &Limit, now: Now, books: &mut [Book]) -> u64 {
        if self.waits() {
            return 0;
        }
        let queues = limit.members().iter().filter(|member| member.has_queue());
        queues.fold(0, |changed, member| {
            let book = &mut books[member.part()];
            let is_needed = book.tickets().ended_are_many(now.micros);
            if is_needed {
                book.change_tickets(|tickets| tickets.remove_ended(now.micros));
            }
            changed | u64::from(is_needed) << member.part()
        })
    }

    /// Writes what becomes of the ticket: what the decision says of it, and the part whose book has changed,
    /// as a bit.
    pub(super) fn finish(
        self,
        request: &Request<'_>,
        decision: &Decision,
        now: Now,
        books: &mut [Book],
    ) -> (Option<Queued>, u64) {
        let (Some(hold), Some(ticket)) = (request.holds(), request.ticket()) else {
            return (None, 0);
        };
        match self {
            Self::Nothing => (None, 0),
            Self::Full => (Some(Queued::Full), 0),
            Self::Ends { part } => {
                books[part].change_tickets(|tickets| {
                    tickets.remove_ended(now.micros);
                    tickets.remove(hold.id);
                });
                (None, 1 << part)
            }
            Self::Waits { part, record } => {
                let ahead = books[part].change_tickets(|tickets| {
                    tickets.remove_ended(now.micros);
                    tickets.put(hold.id, record);
                    tickets.ahead_of(record.place)
                });
                (Some(decision.where_it_waits(ticket, ahead)), 1 << part)
            }
        }
    }
}

/// Ends the tickets of an id; gives the parts that had one which lived, as bits.
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
