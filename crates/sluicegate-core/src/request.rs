//! Requests to an opened limit: an operation on a subject, with its costs.

mod action;
mod costs;
mod operation;
mod validation;

use crate::hold::{Hold, HoldId, Used};
use crate::lease::Leasing;
use crate::limit::Limit;
use crate::receipt::Receipt;
use crate::request_id::Idempotency;
use crate::ticket::Ticket;
use crate::time::{Span, Timestamp};

pub use action::Action;
pub use costs::Costs;
pub use operation::{Operation, Purpose};

/// One request to a limit that a store has opened.
///
/// A constructor creates it and methods complete it.
///
/// ```
/// use sluicegate_core::{Cost, Costs, Request};
///
/// let request = Request::check(b"alice").costs(Costs::Same(Cost::new(3)?));
/// assert_eq!(request.key(), b"alice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Request<'a> {
    key: &'a [u8],
    also: &'a [&'a [u8]],
    action: Action<'a>,
    costs: Costs<'a>,
    at: Option<Timestamp>,
    wants_receipt: bool,
    place_id: Option<&'a HoldId>,
    leasing: Option<&'a Leasing<'a>>,
    hold: Option<&'a Hold>,
    once: Option<Idempotency>,
    ticket: Option<&'a Ticket>,
    time_to_connect: Span,
}

/// The clock by which a store judges requests.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TimeSource {
    /// The store's own clock.
    #[default]
    Store,
    /// The time that each request carries: for replays, conformance tests and simulations. The
    /// states are kept apart from all others under the name `run`.
    Injected {
        /// Any text that no other run uses.
        run: String,
    },
}

impl<'a> Request<'a> {
    const fn of(key: &'a [u8], action: Action<'a>) -> Self {
        Self {
            key,
            also: &[],
            action,
            costs: Costs::Own,
            at: None,
            wants_receipt: false,
            place_id: None,
            leasing: None,
            hold: None,
            ticket: None,
            once: None,
            time_to_connect: Span::ZERO,
        }
    }

    /// An operation on `key` at the policies' own costs, by the store's clock.
    #[inline]
    pub const fn new(operation: Operation, key: &'a [u8]) -> Self {
        Self::of(key, Action::Decide(operation))
    }

    /// A check of `key` at the policies' own costs, by the store's clock.
    #[inline]
    pub const fn check(key: &'a [u8]) -> Self {
        Self::new(Operation::Check, key)
    }

    /// Undoes a reservation, if no request was charged after it.
    pub const fn cancel(receipt: &'a Receipt) -> Self {
        Self::of(&[], Action::Cancel(receipt))
    }

    /// Reads the slices of `key` under a limit that is a ring.
    pub const fn slices(key: &'a [u8]) -> Self {
        Self::of(key, Action::Slices)
    }

    /// Settles what an earlier request about `key` holds.
    pub const fn settle(key: &'a [u8], id: HoldId, used: Used<'a>) -> Self {
        Self::of(key, Action::Settle { id, used })
    }

    /// Lets the record of what an earlier request about `key` holds live on.
    pub const fn renew(key: &'a [u8], id: HoldId, lasts: Span) -> Self {
        Self::of(key, Action::Renew { id, lasts })
    }

    /// Sets the subjects of the parts after the first, for several limits
    /// [together](Limit::together).
    pub const fn also(mut self, subjects: &'a [&'a [u8]]) -> Self {
        self.also = subjects;
        self
    }

    /// Sets the cost under each policy.
    #[inline]
    pub const fn costs(mut self, costs: Costs<'a>) -> Self {
        self.costs = costs;
        self
    }

    /// Sets the time to judge by, for a limit opened with [`TimeSource::Injected`].
    #[inline]
    pub fn at(mut self, time: impl Into<Option<Timestamp>>) -> Self {
        self.at = time.into();
        self
    }

    /// Asks for a receipt, with which an allowed reservation can be cancelled.
    pub const fn with_receipt(mut self) -> Self {
        self.wants_receipt = true;
        self
    }

    /// Asks for a receipt, and lets a reservation that waits have a place in line under this id: if it is
    /// cancelled before its instant, once, and others stand behind it, whoever asks next may have its
    /// turn. No two reservations of a subject that wait at the same time may share an id. Has no effect on
    /// several limits together.
    pub const fn in_line_as(mut self, id: &'a HoldId) -> Self {
        self.wants_receipt = true;
        self.place_id = Some(id);
        self
    }

    /// Sends along what a holder of leases wants and tells. A store that leases nothing answers as if
    /// it weren't there.
    pub const fn leasing(mut self, leasing: &'a Leasing<'a>) -> Self {
        self.leasing = Some(leasing);
        self
    }

    /// Has an allowed check, charge or partial grant leave a record of what it charged, by which that is
    /// [settled](Request::settle) later for what was really used.
    pub const fn hold(mut self, hold: &'a Hold) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Has a check that [holds](Request::hold) what it takes wait in the queue of the limit's permits if
    /// there are too few: it gets a ticket, under the id of the hold, or keeps the one it has, and the
    /// decision, a denial, says [where it stands](crate::Decision::queued). Whoever is first takes its
    /// units by asking again. [Settling](Request::settle) that id leaves the queue. Not for a request with
    /// [an id](Request::once): it asks again and again.
    pub const fn waiting(mut self, ticket: &'a Ticket) -> Self {
        self.ticket = Some(ticket);
        self
    }

    /// Gives a check, a charge or a partial grant an id: once it was allowed, a repeat of it is answered with
    /// the same decision and charged nothing, whatever became of what it took. A denial is not remembered.
    /// Only where one call of the store decides: not if its subjects lie in several slots of a cluster.
    pub const fn idempotent(mut self, once: Idempotency) -> Self {
        self.once = Some(once);
        self
    }

    /// Gives a store that has no connection yet this much time to connect, in addition to the deadline of its
    /// calls. Without it, connecting has to fit into that deadline. For callers that can wait.
    pub const fn connecting_within(mut self, span: Span) -> Self {
        self.time_to_connect = span;
        self
    }

    /// The same request for another operation.
    pub const fn operation(mut self, operation: Operation) -> Self {
        self.action = Action::Decide(operation);
        self
    }

    /// The same request as a peek: answered like a check, writing nothing.
    pub const fn as_peek(mut self) -> Self {
        self.action = Action::Decide(Operation::Peek);
        self.wants_receipt = false;
        self.place_id = None;
        self.leasing = None;
        self.hold = None;
        self.once = None;
        self.ticket = None;
        self
    }

    /// The same request without asking for a receipt.
    pub const fn without_receipt(mut self) -> Self {
        self.wants_receipt = false;
        self.place_id = None;
        self
    }

    /// The same request, which holds nothing, and doesn't wait.
    pub const fn without_hold(mut self) -> Self {
        self.hold = None;
        self.ticket = None;
        self
    }

    /// The same request, which doesn't wait.
    pub const fn without_ticket(mut self) -> Self {
        self.ticket = None;
        self
    }

    /// The same request without an id.
    pub const fn without_once(mut self) -> Self {
        self.once = None;
        self
    }

    /// The same request without what a holder of leases wants and tells.
    pub const fn without_leasing(mut self) -> Self {
        self.leasing = None;
        self
    }

    /// The subject, any bytes; for several limits together, the subject of the first part.
    #[must_use]
    #[inline]
    pub const fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The subject of a part, by its index in [`Limit::parts`].
    #[must_use]
    pub fn subject(&self, part: usize) -> &'a [u8] {
        match (self.action, part.checked_sub(1)) {
            (Action::Cancel(receipt), _) => receipt.subject(part),
            (_, Some(also)) => self.also.get(also).copied().unwrap_or_default(),
            (_, None) => self.key,
        }
    }

    /// The subjects of the parts after the first.
    #[must_use]
    #[inline]
    pub const fn further_subjects(&self) -> &'a [&'a [u8]] {
        self.also
    }

    /// What the request asks for.
    #[must_use]
    #[inline]
    pub const fn action(&self) -> Action<'a> {
        self.action
    }

    /// What the request costs.
    #[must_use]
    #[inline]
    pub const fn cost(&self) -> Costs<'a> {
        self.costs
    }

    /// The time to judge by; `None` is the store's clock.
    #[must_use]
    #[inline]
    pub const fn time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Whether the request asks for a receipt.
    #[must_use]
    pub const fn wants_receipt(&self) -> bool {
        self.wants_receipt
    }

    /// What the place in line of a reservation that waits is to be called.
    #[must_use]
    pub fn place_id(&self) -> Option<HoldId> {
        self.place_id.copied()
    }

    /// Whether the request is about the line of its subject: it may take a turn, or leave one. Several
    /// limits together have no line.
    #[must_use]
    pub fn is_in_line(&self, limit: &Limit) -> bool {
        limit.parts().len() == 1
            && match self.action {
                Action::Decide(Operation::Reserve { within }) => within > Span::ZERO,
                Action::Cancel(receipt) => receipt.place().is_some(),
                _ => false,
            }
    }

    /// What a holder of leases wants and tells.
    #[must_use]
    #[inline]
    pub const fn leases(&self) -> Option<&'a Leasing<'a>> {
        self.leasing
    }

    /// What an allowed request is to leave.
    #[must_use]
    #[inline]
    pub const fn holds(&self) -> Option<&'a Hold> {
        self.hold
    }

    /// The id of the request, and for how long a repeat is known.
    #[must_use]
    #[inline]
    pub const fn idempotency(&self) -> Option<Idempotency> {
        self.once
    }

    /// What a request is to have that can't be allowed yet.
    #[must_use]
    #[inline]
    pub const fn ticket(&self) -> Option<&'a Ticket> {
        self.ticket
    }

    /// Returns the time that the caller has for a connection, in addition to the deadline of the call.
    #[must_use]
    #[inline]
    pub const fn time_to_connect(&self) -> Span {
        self.time_to_connect
    }

    /// Whether the request is about records of what is held: it leaves one, or goes by one.
    #[must_use]
    #[inline]
    pub const fn is_about_holds(&self) -> bool {
        self.hold.is_some() || matches!(self.action, Action::Settle { .. } | Action::Renew { .. })
    }

    /// Whether a store needs the books of the subjects to answer the request: it is about records of what
    /// is held or the line, it has an id, or the limit counts what is in flight, gives back what is never
    /// settled, or bans subjects.
    #[must_use]
    #[inline]
    pub fn needs_books(&self, limit: &Limit) -> bool {
        self.needs_records(limit)
            || self.once.is_some()
            || limit.has_bans()
            || self.is_in_line(limit)
    }

    /// Whether a store needs the records of what is held to answer the request: it is about those, or the
    /// limit counts what is in flight, or gives back what is never settled.
    #[must_use]
    #[inline]
    pub fn needs_records(&self, limit: &Limit) -> bool {
        self.is_about_holds() || limit.has_permits() || limit.has_returns()
    }

    /// The cost under the policy at `index` of the limit.
    #[must_use]
    pub fn cost_of(&self, limit: &Limit, index: usize) -> u64 {
        self.costs.of(limit, index)
    }
}
