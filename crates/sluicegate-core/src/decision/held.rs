//! What a request holds, and what became of what another one holds.

use super::{Decision, RetryAfter};
use crate::hold::{Hold, HoldFound};
use crate::ticket::{Queued, Ticket};

impl Decision {
    /// What the request holds, and for how long from the time of judgement; `None` if it was to hold
    /// nothing, is denied, or has charged nothing.
    #[must_use]
    pub const fn hold(&self) -> Option<Hold> {
        self.hold
    }

    /// What a request found that was to settle or renew what an earlier one holds; `None` for other
    /// requests.
    #[must_use]
    pub const fn hold_found(&self) -> Option<HoldFound> {
        self.hold_found
    }

    /// What became of a denied request that was to [wait](crate::Request::waiting); `None` for others, and
    /// for one that has nothing to wait for: it would never pass, or only policies without a queue refuse.
    #[must_use]
    pub fn queued(&self) -> Option<Queued> {
        self.extras.as_ref()?.queued
    }

    pub(crate) fn where_it_waits(&self, ticket: &Ticket, ahead: u64) -> Queued {
        let retry = match self.retry_after() {
            RetryAfter::After(retry) => retry.as_micros(),
            RetryAfter::Never | RetryAfter::NotRefused => u64::MAX,
        };
        Queued::Waits { ahead, ask_within: ticket.ask_within(retry) }
    }

    pub(crate) const fn set_hold(&mut self, hold: Hold) {
        self.hold = Some(hold);
    }
}
