//! The line of a subject: places that reservations have, and what becomes of them when they are cancelled.

use smallvec::SmallVec;

use super::judge::Judge;
use super::{PerPolicy, Step};
use crate::book::Book;
use crate::decision::Decision;
use crate::kernel::Now;
use crate::limit::Limit;
use crate::line::{Place, PlaceName};
use crate::receipt::Receipt;
use crate::record;
use crate::request::Request;
use crate::stored::Stored;

/// The records of the only part of a limit; several limits together have no line.
pub(super) fn of<'b>(limit: &Limit, books: &'b mut [Book]) -> Option<&'b mut Book> {
    match books {
        [book] if limit.parts().len() == 1 => Some(book),
        _ => None,
    }
}

/// Keeps a place for a reservation that waits; what it is called.
pub(super) fn keep(
    judge: &Judge<'_>,
    request: &Request<'_>,
    allowed: bool,
    now: Now,
    books: &mut [Book],
) -> Option<PlaceName> {
    request.action().within()?;
    let id = request.place_id().filter(|_| allowed)?;
    let book = of(judge.limit(), books)?;
    let wait = Some(judge.longest_wait()).filter(|wait| *wait > 0)?;
    let name = PlaceName { instant: now.micros.saturating_add(wait), id };
    let place = Place { name, made: now.micros, units: judge.wanted().collect() };
    book.change_line(|line| line.keep(place)).then_some(name)
}

/// Restores the states from before a reservation, if they are still as it left them; otherwise leaves its
/// turn to others. Where it has a place in line, that has to be there, and is gone.
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
    // Whose instant has passed may be gone for good.
    let is_ahead = name.instant >= now.micros;
    let place = is_ahead.then(|| book.change_line(|line| line.cancel(name))).flatten();
    let Some(place) = place else { return nothing() };
    match restore(limit, receipt, now, held) {
        Some(step) => Step { books: 1, ..step },
        // The states stay, and are kept beside the line.
        None => Step {
            lives: lives_of(limit, now, held),
            ..cancelled(limit, book.change_line(|line| line.hand_on(place, now.micros)), 1)
        },
    }
}

/// Restores the states from before a reservation, if they are still as it left them.
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
    let lives = lives_of(limit, now, held);
    Some(Step { changed, lives, ..cancelled(limit, true, 0) })
}

/// For how long what is held has to be kept.
fn lives_of(limit: &Limit, now: Now, held: &[Option<Stored>]) -> SmallVec<[u64; 4]> {
    let mut judge = Judge::new(limit);
    match judge.open(now, &mut held.to_vec()) {
        Ok(()) => judge.lives(now, 0),
        // What can't be counted by numbers that are new is kept for ever.
        Err(_) => SmallVec::from_elem(u64::MAX, limit.parts().len()),
    }
}

fn cancelled(limit: &Limit, is_given_back: bool, books: u64) -> Step {
    let decision = Decision::cancelled(limit, is_given_back);
    Step { decision, changed: 0, lives: SmallVec::new(), books, forgets: false }
}
