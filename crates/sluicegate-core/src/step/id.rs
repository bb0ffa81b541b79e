//! Requests with an id. A repeat of an allowed request gets its answer; an allowed request is
//! remembered.

use super::{Call, Step};
use crate::asked::Asked;
use crate::book::Book;
use crate::decision::Decision;
use crate::failure::{Error, RequestError};
use crate::repeats::Repeat;
use crate::request::Request;

/// Before the decision: returns the answer to a repeat of an allowed request.
///
/// `None` for any other request, which can be remembered if it has an id. The book of the first
/// part has the remembered ids.
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

/// Returns the maximum number of bytes that an id adds to a book.
pub(super) fn growth(request: &Request<'_>, book: &Book) -> Option<usize> {
    request.idempotency().map(|_| book.id_growth_bytes())
}

/// After the decision: remembers an allowed request that has an id.
pub(super) fn after(call: Call<'_>, step: &mut Step, books: &mut [Book]) {
    let (Some(once), Some(book), true) =
        (call.request.idempotency(), books.first_mut(), step.decision.is_allowed())
    else {
        return;
    };
    let repeat = Repeat {
        until: call.now.after(once.lasts),
        asked: Asked::of(call.limit, call.request),
        decision: step.decision.keep(),
    };
    book.change_repeats(|repeats| repeats.put(once.id, repeat, call.now.micros));
    step.books |= 1;
}
