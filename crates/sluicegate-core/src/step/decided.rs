//! Decisions that a store has made itself: the effects are its business, and it says what they did.

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
use crate::receipt::Change;
use crate::record::receipt_of;
use crate::request::{Action, Request};
use crate::stored::Stored;
use crate::ticket::Queued;

/// What a store did that has decided about a request itself, by effect.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Whether the policies allow the request.
    pub allowed: bool,
    /// The denials and bans of each part's subject, as they were; none if the limit bans nobody.
    pub bans: SmallVec<[Option<BanState>; 1]>,
    /// Whether the request left a record of what it took.
    pub holds: bool,
    /// What a request found that was to settle or renew a hold.
    pub found: Option<Found>,
    /// The turn that a reservation took.
    pub turn: Option<Place>,
    /// Whether a reservation that waits has a place in line.
    pub has_place: bool,
    /// What a reservation changed of each part, if it is to have a receipt.
    pub changes: Option<Vec<Option<Change>>>,
    /// How many tickets stand before that of a request that waits.
    pub waits_behind: Option<u64>,
    /// Whether the queue has no room for the request.
    pub is_queue_full: bool,
    /// Of a reset, whether there was anything to forget.
    pub forgotten: Option<bool>,
}

/// [`step`](super::step) for a store that has decided about a request itself, over the states as they were: so
/// it says the same. What the effects did is as the store says. `None` if the kernels decide otherwise than the
/// store did.
///
/// # Errors
/// Those of [`step`](super::step).
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
        None => decided.bans.iter().map(|_| Book::default()).collect(),
    };
    for (book, ban) in books.iter_mut().zip(decided.bans) {
        *book = std::mem::take(book).with_ban(ban);
    }
    let plain = request.without_receipt().without_hold().without_once();
    // Only who waits by now has a ticket.
    let ticket = request.ticket().filter(|_| decided.waits_behind.is_some());
    let plain = ticket.map_or(plain, |ticket| plain.waiting(ticket));
    let step = match (request.action(), decided.found) {
        (_, Some(found)) => {
            let step = settle::peek(limit, request, now, (held, &mut books), found)?;
            return Ok(decided.allowed.then_some(step.decision));
        }
        (Action::Decide(operation), None) => {
            plain.validate_apart_from_holds(limit)?;
            decide(Call { limit, request: &plain, operation, now }, held, &mut books)?
        }
        _ => step_with_books(limit, &plain, now, held, &mut books)?,
    };
    let Step { mut decision, books: changed, .. } = step;
    let is_same = decision.is_allowed() == decided.allowed || request.action() == Action::Slices;
    // A ban changes the records too.
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
        let instant = decision.wait().as_micros().checked_add(now.micros);
        let name = instant.zip(request.place_id()).filter(|_| decided.has_place);
        let place = name.map(|(instant, id)| PlaceName { instant, id });
        decision.extras_mut().receipt = Some(receipt_of(limit, request, changes, place));
    }
    if let Some(forgotten) = decided.forgotten {
        decision.set_forgotten(forgotten);
    }
    Ok(Some(decision))
}
