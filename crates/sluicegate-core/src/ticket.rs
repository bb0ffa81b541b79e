//! A place in the queue of those who wait for permits.

use crate::time::Span;

/// A place in a queue of permits, which a request that holds what it takes keeps while it is refused.
///
/// It goes by the id of the [hold](crate::Hold): who asks again under that id has the same place, until it
/// is the first for whom there are enough units.
///
/// ```
/// use sluicegate_core::{Hold, HoldId, Request, Span, Ticket};
///
/// let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Span::MINUTE };
/// let ticket = Ticket { priority: 0, lives: Span::SECOND };
/// let request = Request::check(b"alice").hold(&hold).waiting(&ticket);
/// assert_eq!(request.ticket(), Some(&ticket));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ticket {
    /// From 0, the highest, to 15. Beyond the policy's lowest it counts as that. Who asks again keeps the
    /// one that the ticket has.
    pub priority: u8,
    /// How long the ticket lives if nobody asks again, counted from the decision: 1 ms to a minute. Whoever
    /// waits and dies delays those behind it for so long.
    pub lives: Span,
}

/// What became of a request that was to wait.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Queued {
    /// It has a ticket.
    Waits {
        /// How many tickets come first, 1,024 at most: so far they are counted.
        ahead: u64,
        /// When to ask again at the latest, counted from the decision: the ticket outlives it by half of
        /// its life.
        ask_within: Span,
    },
    /// As many wait as may.
    Full,
}

impl Ticket {
    /// The shortest life of a ticket.
    pub const MIN_LIVES: Span = Span::MILLISECOND;
    /// The longest life of a ticket.
    pub const MAX_LIVES: Span = Span::MINUTE;

    /// When to ask again at the latest, of a request that is refused for so long unless somebody else does
    /// something.
    pub(crate) fn ask_within(&self, retry: u64) -> Span {
        let micros = (self.lives.as_micros() / 2).min(retry).max(1);
        Span::from_micros(micros).unwrap_or(self.lives)
    }
}
