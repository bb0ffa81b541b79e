//! Decisions that a store has made itself. It also handles the effects, and reports their results.

use smallvec::SmallVec;

use super::settle::{self, Found};
use super::{Call, Step, decide, step_with_books};
use crate::ban_state::BanState;
use crate::book::Book;
use crate::decision::Decision;
use crate::decision::DecisionForStores as _;
use crate::failure::Error;
use crate::kernel::Now;
use crate::limit::Limit;
use crate::line::{Place, PlaceName};
use crate::pause::Pauses;
use crate::receipt::Change;
use crate::record::receipt_of;
use crate::request::{Operation, Request};
use crate::stored::Stored;
use crate::ticket::Queued;
use crate::time::Span;

/// The results of a store's own decision, by effect.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Whether the policies allow the request.
    pub allowed: bool,
    /// The denials and bans of each part's subject before the decision. Empty if the limit has no
    /// bans.
    pub bans: SmallVec<[Option<BanState>; 1]>,
    /// The pauses of each part's subject before a request that changes them. Otherwise empty.
    pub pauses: SmallVec<[Pauses; 1]>,
    /// Whether the request left a record of its units.
    pub holds: bool,
    /// The result for a request that settles or renews a hold.
    pub found: Option<Found>,
    /// The turn that a reservation took.
    pub turn: Option<Place>,
    /// Whether a waiting reservation has a queue position.
    pub has_place: bool,
    /// The changes of a reservation to each part, if it gets a receipt.
    pub changes: Option<Vec<Option<Change>>>,
    /// The number of tickets ahead of a waiting request.
    pub waits_behind: Option<u64>,
    /// Whether the queue is full for the request.
    pub is_queue_full: bool,
    /// For a reset, whether a state was deleted.
    pub forgotten: Option<bool>,
}

/// Repeats [`step`](super::step) for a store that has decided about a request itself, over the
/// states before its decision.
///
/// The result has the store's decision and the effects that the store reports. `None` if the
/// kernels decide differently from the store.
///
/// # Errors
/// Returns the errors of [`step`](super::step).
pub fn step_decided(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    held: &mut [Option<Stored>],
    decided: Decided,
) -> Result<Option<Decision>, Error> {
    let took_turn = decided.turn.is_some();
    let mut books: SmallVec<[Book; 1]> = match decided.turn {
        Some(turn) => SmallVec::from([Book::of_turn(turn)]),
        None => {
            let parts = decided.bans.len().max(decided.pauses.len());
            std::iter::repeat_with(Book::default).take(parts).collect()
        }
    };
    for (book, ban) in books.iter_mut().zip(decided.bans) {
        *book = std::mem::take(book).with_ban(ban);
    }
    for (book, pauses) in books.iter_mut().zip(decided.pauses) {
        book.set_pauses(pauses);
    }
    let plain = request.without_receipt().without_hold().without_once();
    // Only a request that now waits has a ticket.
    let ticket = request.ticket().filter(|_| decided.waits_behind.is_some());
    let plain = ticket.map_or(plain, |ticket| plain.waiting(ticket));
    let step = match (request.operation(), decided.found) {
        (_, Some(found)) => {
            let step = settle::peek(limit, request, now, (held, &mut books), found)?;
            return Ok(decided.allowed.then_some(step.decision));
        }
        (
            Operation::Cancel(_)
            | Operation::Slices
            | Operation::Settle { .. }
            | Operation::Renew { .. },
            None,
        ) => step_with_books(limit, &plain, now, held, &mut books)?,
        (operation, None) => {
            plain.validate_apart_from_holds(limit)?;
            decide(Call { limit, request: &plain, operation, now }, held, &mut books)?
        }
    };
    let Step { mut decision, books: changed, .. } = step;
    let is_same =
        decision.is_allowed() == decided.allowed || request.operation() == Operation::Slices;
    // A ban also changes the books.
    if !is_same || took_turn && changed == 0 {
        return Ok(None);
    }
    if let Some(hold) = request.holds().filter(|_| decided.holds) {
        decision.set_hold(*hold);
    }
    if let Some((ticket, ahead)) = request.ticket().zip(decided.waits_behind) {
        decision = decision.waits(ticket, ahead);
    } else if decided.is_queue_full {
        decision.extras_mut().queued = Some(Queued::Full);
    }
    if let Some(changes) = decided.changes.filter(|_| decision.is_allowed()) {
        let instant = Span::from(decision.wait()).as_micros().checked_add(now.micros);
        let name = instant.zip(request.place_id()).filter(|_| decided.has_place);
        let place = name.map(|(instant, id)| PlaceName { instant, id });
        decision.extras_mut().receipt = Some(receipt_of(limit, request, changes, place));
    }
    if let Some(forgotten) = decided.forgotten {
        decision.set_forgotten(forgotten);
    }
    Ok(Some(decision))
}
