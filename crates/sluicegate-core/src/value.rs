//! [`step`](crate::for_stores::step()) for stores with one value per subject, in the format of [`record`](crate::record).

use smallvec::SmallVec;

use crate::book::Book;
use crate::decision::DecisionForStores as _;
use crate::failure::Error;
use crate::kernel::Now;
use crate::limit::{Limit, Member};
use crate::record::{Entry, Record, encode, entries_of};
use crate::request::Request;
use crate::step::{Step, step_with_books};
use crate::stored::Stored;

/// The change of a stored value, for a store with one value per subject.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Write {
    /// Leave the value as it is.
    Nothing,
    /// Write the value.
    Set {
        /// The value.
        value: Vec<u8>,
        /// The minimum retention, in µs from now; `u64::MAX` means that it never expires.
        life: u64,
    },
    /// Remove the value.
    Remove,
}

/// Runs [`step`](crate::for_stores::step()) for a store with one encoded value per subject and part
/// of a limit.
///
/// Returns the step, and the change of each part's value. `values` has the current value of each
/// part, in order. States of other versions of the limit, which another program may be using, are
/// kept as long as they are useful to it. A state that can't be decoded counts as absent, and
/// [`Warnings::discarded`](crate::Warnings) reports it.
///
/// ```
/// use sluicegate_core::value::{Write, step_values};
/// use sluicegate_core::for_stores::Now;
/// use sluicegate_core::{Limit, Request};
///
/// let limit = Limit::new("login", vec!["gcra 1/s"])?;
/// let now = Now { micros: 1_000_000, max_clock_back: None };
/// let (step, writes) = step_values(&limit, &Request::check(b"alice"), now, &[None])?;
/// assert!(step.decision.is_allowed());
/// assert!(matches!(&writes[0], Write::Set { value, life: 1_000_000 } if value.len() == 27));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`step`](crate::for_stores::step()); write nothing then.
pub fn step_values(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    values: &[Option<&[u8]>],
) -> Result<(Step, SmallVec<[Write; 1]>), Error> {
    let records: SmallVec<[Record<'_>; 1]> =
        values.iter().map(|value| Record::decode(value.unwrap_or_default())).collect();
    let mut discarded = records.iter().any(Record::is_torn);
    let mut held: Vec<Option<Stored>> = Vec::with_capacity(limit.members().len());
    for member in limit.members() {
        let (state, is_unreadable) = records[member.part()].held(member);
        discarded |= is_unreadable;
        held.push(state);
    }
    // Read the records of holds only if the request needs them.
    let needs_books = request.needs_books(limit) || records.iter().any(Record::has_pauses);
    let read = |record: &Record<'_>| {
        let (book, is_torn) = record.book();
        discarded |= is_torn;
        book
    };
    let mut books: SmallVec<[Book; 1]> = records.iter().filter(|_| needs_books).map(read).collect();
    let mut step = step_with_books(limit, request, now, &mut held, &mut books)?;
    if discarded {
        let mut warnings = step.decision.warnings();
        warnings.discarded = true;
        step.decision.set_warnings(warnings);
    }
    if step.forgets() {
        // Including policies that this request doesn't evaluate.
        step.decision.set_forgotten(records.iter().any(Record::has_more_than_repeats));
    }
    let writes = records.iter().enumerate().map(|(part, record)| {
        let changed = |(index, member): &(usize, &Member)| {
            member.part() == part && step.changed & (1 << index) != 0
        };
        let book = books.get(part).filter(|_| step.books & (1 << part) != 0);
        if book.is_none() && !limit.members().iter().enumerate().any(|member| changed(&member)) {
            return Write::Nothing;
        }
        write(record, limit, part, (&held, book), &step, now)
    });
    let writes = writes.collect();
    Ok((step, writes))
}

/// Returns the value after a step: the changed states, and the book if it has changed.
///
/// Entries of other versions that are still useful are kept.
fn write(
    record: &Record<'_>,
    limit: &Limit,
    part: usize,
    (held, book): (&[Option<Stored>], Option<&Book>),
    step: &Step,
    now: Now,
) -> Write {
    let mut value = encode(limit, part, held);
    let mut life = step.lives.get(part).copied().unwrap_or(0);
    for (entry, until) in book.into_iter().flat_map(|book| entries_of(book, limit.ban(part))) {
        life = life.max(until.saturating_sub(now.micros));
        entry.write(&mut value);
    }
    let is_ban = |entry: &Entry<'_>| entry.is_of_bans() && limit.ban(part).is_some();
    let is_ours = |entry: &Entry<'_>| {
        (entry.is_of_book() || is_ban(entry)) && book.is_some()
            || limit.members().iter().any(|member| {
                let rule = member.policy().rule();
                member.part() == part
                    && member.identity() == entry.identity
                    && (rule.profile().layout.kind() == entry.kind
                        || [rule.leased_kind(), rule.held_kind()].contains(&Some(entry.kind)))
            })
    };
    for entry in record.entries().iter().filter(|entry| !is_ours(entry)) {
        let left = entry.useful_until().saturating_sub(now.micros);
        if (left > 0 || is_ban(entry)) && (!step.forgets() || entry.is_of_repeats()) {
            entry.write(&mut value);
            life = life.max(left);
        }
    }
    if value.is_empty() { Write::Remove } else { Write::Set { value, life } }
}
