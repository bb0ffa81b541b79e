//! Unsettled holds, which the first request after their end gives back.

use super::{Step, settle};
use crate::book::{Book, HoldRecord};
use crate::failure::Error;
use crate::hold::HoldId;
use crate::kernel::{Now, Overflow};
use crate::limit::Limit;
use crate::on_expiry::OnExpiry;
use crate::stored::Stored;

/// Answers a request after giving expired holds back, as if they had been cancelled right before
/// it.
///
/// A request that `only_looks` gets the same answer and changes nothing. A request that fails
/// changes nothing, either.
pub(super) fn around(
    limit: &Limit,
    now: Now,
    (held, books): (&mut [Option<Stored>], &mut [Book]),
    only_looks: bool,
    answer: impl FnOnce(&mut [Option<Stored>], &mut [Book]) -> Result<Step, Error>,
) -> Result<Step, Error> {
    let over = if limit.has_returns() { over(limit, now, books) } else { Vec::new() };
    if over.is_empty() {
        return answer(held, books);
    }
    let before = held.to_vec();
    let until: Vec<u64> = books.iter().map(Book::returns_until).collect();
    let returned = give_back(limit, now, &over, held);
    let answered = match returned {
        Ok(None) => return answer(held, books),
        Ok(Some(changed)) => {
            over.iter().for_each(|(part, id, _)| books[*part].remove(*id));
            answer(held, books).map(|step| (changed, step))
        }
        Err(overflow) => Err(overflow.into()),
    };
    match answered {
        Ok((changed, mut step)) if !only_looks => {
            step.changed |= changed;
            step.books |= over.iter().fold(0, |parts, (part, ..)| parts | 1 << part);
            Ok(step)
        }
        undone => {
            held.clone_from_slice(&before);
            for (part, id, record) in over {
                books[part].put(id, record);
                books[part].keep_returns_until(until[part]);
            }
            undone.map(|(_, step)| step)
        }
    }
}

/// Returns the expired holds to give back, by part.
fn over(limit: &Limit, now: Now, books: &[Book]) -> Vec<(usize, HoldId, HoldRecord)> {
    let parts = books.iter().enumerate();
    let returning = parts.filter(|(part, _)| limit.on_expiry(*part) == OnExpiry::Return);
    let over = returning.flat_map(|(part, book)| {
        book.to_return(now.micros).into_iter().map(move |(id, record)| (part, id, record))
    });
    over.collect()
}

/// Gives the holds back, one after the other, and returns the changed policies as bits.
///
/// `None` if states must be restamped first; then nothing has changed.
fn give_back(
    limit: &Limit,
    now: Now,
    over: &[(usize, HoldId, HoldRecord)],
    held: &mut [Option<Stored>],
) -> Result<Option<u64>, Overflow> {
    if settle::are_restamped(limit, now, held)? {
        return Ok(None);
    }
    let mut changed = 0;
    for (part, _, record) in over {
        changed |= settle::cancel(limit, (*part, record), now, held)?;
    }
    Ok(Some(changed))
}
