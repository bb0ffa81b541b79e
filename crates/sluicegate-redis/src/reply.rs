//! Decodes the reply of a script to a decision.

mod repeat;
mod states;
pub(crate) mod verdict;

use bytes::Bytes;
use sluicegate_core::kernel::Now;
use sluicegate_core::{Decision, Error, Limit, MAX_EXACT, Request, RequestError, Timestamp};

use crate::ban::read_banned;
use crate::hold::GIVEN;
use crate::reply_frame::{self, ReplyFrame, Said};
use crate::resp::Value;
use crate::unexpected::nonsense;
use repeat::read_repeat;
use states::{read_denial, read_states, read_turn};
use verdict::{ASKS_OTHERWISE, FULL_OF_IDS, REPEATED, bytes, read_verdict};

/// The decoded reply of a script.
#[derive(Debug)]
pub enum Reply {
    /// A decision.
    Decided(Decision),
    /// The boundaries sent for a calendar policy don't contain the time of judgement. Nothing was
    /// charged.
    AskAgain {
        /// The policy's index in its limit.
        policy: usize,
        /// The time of judgement, in µs.
        at: u64,
    },
}

/// Decodes what the script said to a caller.
///
/// # Errors
/// [`Error::Request`] if the script refused a number that a state can't hold;
/// [`StoreErrorKind::Unexpected`](sluicegate_core::StoreErrorKind::Unexpected) if the reply makes no sense.
pub fn read_reply(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    said: &Said,
) -> Result<Reply, Error> {
    // The script has seen to that.
    let request = &request.without_once();
    let ReplyFrame { micros, sign, rest, turn } = match said {
        Said::Briefly(frame) => frame,
        Said::Fully(items) => return read_array(limit, request, max_clock_back, items),
    };
    // Under another clock than the server's, the time to judge by came with the request.
    let micros = request.time().map_or(*micros, Timestamp::as_micros);
    if micros > MAX_EXACT {
        return Err(nonsense("a time that no clock shows"));
    }
    let now = Now { micros, max_clock_back };
    if request.is_about_holds() && matches!(*sign, reply_frame::ALLOWED | reply_frame::DENIED) {
        let items = brief_hold(limit, request, micros, *sign == reply_frame::ALLOWED, rest);
        return read_verdict(limit, request, max_clock_back, &items);
    }
    match *sign {
        reply_frame::ALLOWED => read_states(limit, request, rest),
        reply_frame::DENIED => read_denial(limit, request, now, rest),
        reply_frame::BANNED => read_banned(limit, rest),
        reply_frame::SEVERAL => read_turn(limit, request, now, rest, *turn),
        // Not what it says: that might repeat what it was sent.
        _ => Err(nonsense("a reply with another sign")),
    }
    .map(Reply::Decided)
}

/// The script replied at length: a verdict, or what became of the id of the request.
fn read_array(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    items: &[Value],
) -> Result<Reply, Error> {
    match items {
        [Value::Int(REPEATED), Value::Int(_), Value::Int(_), rest @ ..] => {
            let record = rest.first().and_then(bytes).unwrap_or_default();
            read_repeat(limit, request, max_clock_back, record).map(Reply::Decided)
        }
        [Value::Int(ASKS_OTHERWISE), Value::Int(_), Value::Int(_), ..] => {
            Err(RequestError::asks_something_else(limit).into())
        }
        [Value::Int(FULL_OF_IDS), Value::Int(_), Value::Int(_), ..] => {
            Err(RequestError::too_many_ids(limit).into())
        }
        _ => read_verdict(limit, request, max_clock_back, items),
    }
}

/// What is said briefly of a hold, as it is said at length: the states as they were, and whether anything is
/// held; of a settlement what was found, what was given back, and the states as they are. Of what is in
/// flight it is a reading instead of states.
fn brief_hold(
    limit: &Limit,
    request: &Request<'_>,
    micros: u64,
    is_allowed: bool,
    rest: &Bytes,
) -> Vec<Value> {
    let mut items = [i64::from(is_allowed), micros.cast_signed(), 0].map(Value::Int).to_vec();
    let is_hold = request.holds().is_some();
    let (given, states) = match rest.len() {
        length if is_hold || length < GIVEN.size() => (None, rest.clone()),
        _ => (Some(rest.slice(..GIVEN.size())), rest.slice(GIVEN.size()..)),
    };
    if limit.has_permits() {
        items.push(Value::Nil);
    }
    items.push(if states.is_empty() { Value::Nil } else { Value::Bytes(states) });
    match given {
        Some(given) => {
            items.push(Value::Int(given[0].into()));
            items.push(Value::Bytes(given.slice(1..)));
        }
        None => items.push(Value::Int(is_allowed.into())),
    }
    items
}
