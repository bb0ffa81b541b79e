//! A position in the queue of waiters for permits.

use crate::time::Span;

/// A position in a queue of permits, for a request with a hold that is refused for now.
///
/// The ticket uses the id of the [hold](crate::Hold). A repeated request with that id keeps its
/// position until it is the first for which there are enough units.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::{Hold, HoldId, Request, Span, Ticket};
///
/// let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Duration::from_secs(60) };
/// let ticket = Ticket { priority: 0, lives: Span::SECOND };
/// let request = Request::check(b"alice").hold(&hold).waiting(&ticket);
/// assert_eq!(request.ticket(), Some(&ticket));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ticket {
    /// The priority, from 0, the highest, to 15. A value beyond the policy's lowest priority counts
    /// as the lowest. A repeated request keeps the priority of its ticket.
    pub priority: u8,
    /// Lifetime of the ticket, from the decision, without another request: 1 ms to 1 min. A waiter
    /// that crashes delays the ones behind it for that time.
    pub lives: Span,
}

/// The result for a denied request that wanted to wait.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Queued {
    /// The request has a ticket.
    Waits {
        /// The number of tickets ahead of this one, counted up to 1,024.
        ahead: u64,
        /// The latest time to repeat the request, from the decision. The ticket is valid for at
        /// least half of its lifetime after that.
        ask_within: Span,
    },
    /// The queue is full.
    Full,
}

impl Ticket {
    /// The shortest lifetime of a ticket.
    pub const MIN_LIVES: Span = Span::MILLISECOND;
    /// The longest lifetime of a ticket.
    pub const MAX_LIVES: Span = Span::MINUTE;

    /// Returns the latest time to repeat a request that is refused for `retry` µs if no other
    /// caller acts.
    pub(crate) fn ask_within(&self, retry: u64) -> Span {
        let micros = (self.lives.as_micros() / 2).min(retry).max(1);
        Span::from_micros(micros).unwrap_or(self.lives)
    }
}
