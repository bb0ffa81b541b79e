//! Requests with an id: answering a repeat, and remembering what was allowed.

use smallvec::SmallVec;

use super::Step;
use crate::asked::Asked;
use crate::book::Book;
use crate::decision::Decision;
use crate::failure::{Error, RequestError};
use crate::kernel::Now;
use crate::limit::Limit;
use crate::repeats::Repeat;
use crate::request::Request;

/// The answer to a request that was asked and allowed before; `None` for any other one, which can be
/// remembered if it has an id. The records of the first part have it.
pub(super) fn answer(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    books: &[Book],
) -> Result<Option<Step>, Error> {
    let (Some(once), Some(book)) = (request.asks_once(), books.first()) else {
        return Ok(None);
    };
    let Some(repeats) = book.repeats() else { return Ok(None) };
    let Some(repeat) = repeats.get(once.id, now.micros) else {
        let has_room = repeats.has_room(now.micros);
        return if has_room { Ok(None) } else { Err(RequestError::too_many_ids(limit).into()) };
    };
    if repeat.asked != Asked::of(limit, request) {
        return Err(RequestError::asks_something_else(limit).into());
    }
    let decision = Decision::of_kept(limit, request, &repeat.decision);
    Ok(decision.map(|decision| Step {
        decision,
        changed: 0,
        lives: SmallVec::new(),
        books: 0,
        forgets: false,
    }))
}

/// Remembers a request that has an id, if it is allowed; gives the parts whose records changed, as bits.
pub(super) fn keep(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    decision: &Decision,
    books: &mut [Book],
) -> u64 {
    let (Some(once), Some(book), true) =
        (request.asks_once(), books.first_mut(), decision.is_allowed())
    else {
        return 0;
    };
    let repeat = Repeat {
        until: now.micros.saturating_add(once.lasts.as_micros()),
        asked: Asked::of(limit, request),
        decision: decision.keep(),
    };
    book.change_repeats(|repeats| repeats.put(once.id, repeat, now.micros));
    1
}
