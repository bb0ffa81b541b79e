//! Requests with an id: one that was allowed before gets the same answer, and one that is allowed is remembered.

use super::{Call, Step};
use crate::asked::Asked;
use crate::book::Book;
use crate::decision::Decision;
use crate::failure::{Error, RequestError};
use crate::repeats::Repeat;
use crate::request::Request;

/// Before the decision: the answer to a request that was asked and allowed before; `None` for any other one,
/// which can be remembered if it has an id. The records of the first part have it.
pub(super) fn before(call: Call<'_>, books: &[Book]) -> Result<Option<Step>, Error> {
    let Call { limit, request, now, .. } = call;
    let (Some(once), Some(book)) = (request.idempotency(), books.first()) else {
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
    Ok(Decision::of_kept(limit, request, &repeat.decision).map(Step::of))
}

/// The bytes that an id adds to a book at most.
pub(super) fn growth(request: &Request<'_>, book: &Book) -> Option<usize> {
    request.idempotency().map(|_| book.id_growth_bytes())
}

/// After the decision: remembers a request that has an id, if it is allowed.
pub(super) fn after(call: Call<'_>, step: &mut Step, books: &mut [Book]) {
    let (Some(once), Some(book), true) =
        (call.request.idempotency(), books.first_mut(), step.decision.is_allowed())
    else {
        return;
    };
    let repeat = Repeat {
        until: call.now.micros.saturating_add(once.lasts.as_micros()),
        asked: Asked::of(call.limit, call.request),
        decision: step.decision.keep(),
    };
    book.change_repeats(|repeats| repeats.put(once.id, repeat, call.now.micros));
    step.books |= 1;
}
