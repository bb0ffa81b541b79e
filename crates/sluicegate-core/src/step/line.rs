//! The reservation queue of a subject. A reservation takes a released turn or gets its own place,
//! which becomes a turn for others if it is cancelled.

use smallvec::SmallVec;

use super::judge::Judge;
use super::{Call, PerPolicy, Step, lives};
use crate::book::Book;
use crate::decision::Decision;
use crate::decision::DecisionForStores as _;
use crate::kernel::{Now, Overflow};
use crate::limit::Limit;
use crate::line::{Line, Place, PlaceName};
use crate::receipt::Receipt;
use crate::record;
use crate::request::Request;
use crate::stored::Stored;
use crate::time::Span;

/// A reservation and its relation to the queue of its subject.
pub(super) struct InLine {
    /// The states from before, if there will be a receipt.
    before: Option<Vec<Option<Stored>>>,
    /// Whether it took a turn, which was charged when another caller reserved it.
    took_turn: bool,
}

impl InLine {
    /// Before the decision: keeps the states for the receipt.
    pub(super) fn before(call: Call<'_>, held: &[Option<Stored>]) -> Self {
        let wants_receipt = call.request.wants_receipt() && call.operation.within().is_some();
        Self { before: wants_receipt.then(|| held.to_vec()), took_turn: false }
    }

    /// Makes a reservation, or takes a turn from the queue: this is the decision.
    pub(super) fn decide(
        &mut self,
        call: Call<'_>,
        within: Span,
        judge: &mut Judge<'_>,
        books: &mut [Book],
    ) -> Result<(bool, u64), Overflow> {
        let (now, within) = (call.now.micros, within.as_micros());
        judge.reserve(call.request.cost(), within, |longest, judge| {
            let book = of(call.limit, books).filter(|_| longest > 0)?;
            let suffices = |turn: &Place| judge.suffices(turn);
            let turn = book.change_line(|line| line.take(now, longest, suffices))?;
            self.took_turn = true;
            Some(turn.name.instant - now)
        })
    }

    /// After the decision: keeps a place for a waiting reservation, and creates its receipt.
    pub(super) fn after(
        self,
        call: Call<'_>,
        judge: &Judge<'_>,
        step: &mut Step,
        held: &[Option<Stored>],
        books: &mut [Book],
    ) {
        let place = keep(call, judge, step, books);
        step.books |= u64::from(self.took_turn || place.is_some());
        if let Some(before) = self.before.filter(|_| step.decision.is_allowed()) {
            // A reservation that took a turn has changed no state that could be restored.
            let before = if self.took_turn { held } else { &before };
            let receipt = record::receipt(call.limit, call.request, before, held, place);
            step.decision.extras_mut().receipt = Some(receipt);
        }
    }
}

/// Keeps a place for a waiting reservation, and returns the place's name.
fn keep(
    Call { limit, request, operation, now }: Call<'_>,
    judge: &Judge<'_>,
    step: &Step,
    books: &mut [Book],
) -> Option<PlaceName> {
    operation.within()?;
    let id = request.place_id().filter(|_| step.decision.is_allowed())?;
    let book = of(limit, books)?;
    let wait = Some(judge.longest_wait()).filter(|wait| *wait > 0)?;
    let name = PlaceName { instant: now.micros.saturating_add(wait), id };
    let place = Place { name, made: now.micros, units: judge.wanted().collect() };
    book.change_line(|line| line.keep(place)).then_some(name)
}

/// Returns the maximum number of bytes that a place in the queue adds to a book.
pub(super) fn growth(request: &Request<'_>) -> Option<usize> {
    request.place_id().map(|_| Line::growth_bytes())
}

/// Returns the book of the only part of a limit. Several limits together have no reservation queue.
fn of<'b>(limit: &Limit, books: &'b mut [Book]) -> Option<&'b mut Book> {
    match books {
        [book] if limit.parts().len() == 1 => Some(book),
        _ => None,
    }
}

/// Restores the states from before a reservation, if they haven't changed since; otherwise releases
/// its turn to others.
///
/// If the reservation has a place in the queue, the place must still exist, and is removed.
pub(super) fn cancel(
    limit: &Limit,
    receipt: &Receipt,
    now: Now,
    held: &mut [Option<Stored>],
    books: &mut [Book],
) -> Step {
    let nothing = || cancelled(limit, false, 0);
    let Some(name) = receipt.place() else {
        return restore(limit, receipt, now, held).unwrap_or_else(nothing);
    };
    let Some(book) = of(limit, books) else { return nothing() };
    // Once its instant has passed, a place may already have been removed.
    let is_ahead = name.instant >= now.micros;
    let place = is_ahead.then(|| book.change_line(|line| line.cancel(name))).flatten();
    let Some(place) = place else { return nothing() };
    match restore(limit, receipt, now, held) {
        Some(step) => Step { books: 1, ..step },
        // The states are unchanged, and are kept together with the queue.
        None => Step {
            lives: lives(limit, now, held),
            ..cancelled(limit, book.change_line(|line| line.hand_on(place, now.micros)), 1)
        },
    }
}

/// Restores the states from before a reservation, if they haven't changed since.
fn restore(
    limit: &Limit,
    receipt: &Receipt,
    now: Now,
    held: &mut [Option<Stored>],
) -> Option<Step> {
    if !receipt.has_changes() {
        return None;
    }
    let mut restored: PerPolicy<Option<Stored>> = SmallVec::new();
    let mut changed = 0;
    for (index, (member, held)) in limit.members().iter().zip(held.iter()).enumerate() {
        let change = receipt.parts().get(member.part()).and_then(|part| part.change.as_ref());
        let Some(change) = change else {
            restored.push(None);
            continue;
        };
        let left = record::state_of(&change.after, member);
        if left != *held {
            return None;
        }
        let found = change.before.as_deref().and_then(|before| record::state_of(before, member));
        if found != left {
            changed |= 1 << index;
        }
        restored.push(found);
    }
    for (index, (held, state)) in held.iter_mut().zip(restored).enumerate() {
        if changed & (1 << index) != 0 {
            *held = state;
        }
    }
    let lives = lives(limit, now, held);
    Some(Step { changed, lives, ..cancelled(limit, true, 0) })
}

fn cancelled(limit: &Limit, is_given_back: bool, books: u64) -> Step {
    Step { books, ..Step::of(Decision::cancelled(limit, is_given_back)) }
}
