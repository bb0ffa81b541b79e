//! The hold of a request, and what happened to the hold of another one.

use super::{Decision, RetryAfter};
use crate::hold::{Hold, HoldFound};
use crate::ticket::{Queued, Ticket};
use crate::time::Span;

impl Decision {
    /// Returns the request's hold, whose duration counts from the evaluation time.
    ///
    /// `None` if the request asked for no hold, is denied, or charged nothing.
    #[must_use]
    pub const fn hold(&self) -> Option<Hold> {
        self.hold
    }

    /// Returns what happened to the hold that the request settled or renewed; `None` for other
    /// requests.
    #[must_use]
    pub const fn hold_found(&self) -> Option<HoldFound> {
        self.hold_found
    }

    /// Returns what happened to a denied request that wanted to [wait](crate::Request::waiting).
    ///
    /// `None` for other requests, and for one that has nothing to wait for. Such a request would
    /// never pass, or only policies without a queue refuse it.
    #[must_use]
    pub fn queued(&self) -> Option<Queued> {
        self.extras.as_ref()?.queued
    }

    pub(crate) fn where_it_waits(&self, ticket: &Ticket, ahead: u64) -> Queued {
        let retry = match self.retry_after() {
            RetryAfter::After(retry) => Span::from(retry).as_micros(),
            RetryAfter::Never | RetryAfter::NotRefused => u64::MAX,
        };
        Queued::Waits { ahead, ask_within: ticket.ask_within(retry) }
    }

    pub(crate) const fn set_hold(&mut self, hold: Hold) {
        self.hold = Some(hold);
    }
}
