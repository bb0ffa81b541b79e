//! Decodes the reply of a script to a decision.

mod repeat;
mod states;
pub(crate) mod verdict;

use sluicegate_core::kernel::Now;
use sluicegate_core::{Decision, Error, Limit, MAX_EXACT, Request, Timestamp};

use crate::refusal::read_refusal;
use crate::reply_frame::{self, ReplyFrame, Said};
use crate::unexpected::nonsense;
use repeat::read_repeat;
use states::{read_denial, read_states, read_turn};
use verdict::{Frame, Spoken};

/// The decoded reply of a script.
#[derive(Debug)]
pub enum Reply {
    /// A decision.
    Decided(Decision),
    /// The boundaries sent for a calendar policy don't contain the evaluation time. Nothing was charged.
    AskAgain {
        /// The policy's index in its limit.
        policy: usize,
        /// The evaluation time, in µs.
        at: u64,
    },
}

/// Decodes the script's reply to a caller.
///
/// # Errors
/// Returns [`Error::Request`] if the script refused a number that a state can't hold, and
/// [`StoreErrorKind::Unexpected`](sluicegate_core::StoreErrorKind::Unexpected) if the reply is malformed.
pub fn read_reply(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    said: &Said,
) -> Result<Reply, Error> {
    // The script has handled the request's id.
    let request = &request.without_once();
    let ReplyFrame { micros, sign, rest, turn } = match said {
        Said::Briefly(frame) => frame,
        Said::Fully(items) => {
            return match Spoken::of(limit, request, items)? {
                Spoken::Decided(frame) => frame.decide(limit, request, max_clock_back),
                Spoken::Repeated(record) => read_repeat(limit, request, max_clock_back, &record),
                Spoken::AskAgain { policy, at } => return Ok(Reply::AskAgain { policy, at }),
            }
            .map(Reply::Decided);
        }
    };
    // Under injected time, the time to decide by came with the request.
    let micros = request.time().map_or(*micros, Timestamp::as_micros);
    if micros > MAX_EXACT {
        return Err(nonsense("a time that no clock shows"));
    }
    let now = Now { micros, max_clock_back };
    match *sign {
        sign @ (reply_frame::ALLOWED | reply_frame::DENIED) if request.is_about_holds() => {
            let allowed = sign == reply_frame::ALLOWED;
            let frame = Frame::brief(limit, request, micros, allowed, rest)?;
            frame.decide(limit, request, max_clock_back)
        }
        reply_frame::ALLOWED => read_states(limit, request, rest),
        reply_frame::DENIED => read_denial(limit, request, now, rest),
        reply_frame::REFUSED => read_refusal(limit, rest),
        reply_frame::SEVERAL => read_turn(limit, request, now, rest, *turn),
        // Don't quote the reply, which might repeat the request's data.
        _ => Err(nonsense("a reply with another sign")),
    }
    .map(Reply::Decided)
}
