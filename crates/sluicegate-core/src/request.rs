//! Requests to an opened limit: an operation on a subject, with its costs.

mod costs;
mod operation;
mod validation;

use crate::hold::{Hold, HoldId};
use crate::lease::Leasing;
use crate::limit::Limit;
use crate::receipt::Receipt;
use crate::request_id::Idempotency;
use crate::ticket::Ticket;
use crate::time::{Span, Timestamp};

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
    operation: Operation<'a>,
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

/// The clock by which a store evaluates requests.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum TimeSource {
    /// The store's own clock.
    #[default]
    Store,
    /// The time that each request carries, for replays, conformance tests and simulations. Their
    /// states are stored separately from all others under the name `run`.
    Injected {
        /// Any text that no other run uses.
        run: String,
    },
}

impl<'a> Request<'a> {
    /// Creates a request for an operation on `key` at the policies' own costs, by the store's
    /// clock.
    #[inline]
    pub const fn new(operation: Operation<'a>, key: &'a [u8]) -> Self {
        Self {
            key,
            also: &[],
            operation,
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

    /// Creates a check of `key` at the policies' own costs, by the store's clock.
    #[inline]
    pub const fn check(key: &'a [u8]) -> Self {
        Self::new(Operation::Check, key)
    }

    /// Cancels a reservation, if no request was charged after it.
    pub const fn cancel(receipt: &'a Receipt) -> Self {
        Self::new(Operation::Cancel(receipt), &[])
    }

    /// Reads the slices of `key` under a limit that is a ring.
    pub const fn slices(key: &'a [u8]) -> Self {
        Self::new(Operation::Slices, key)
    }

    /// Settles the hold of an earlier request about `key`: `used` has the units that each policy
    /// really used.
    ///
    /// A policy without a number used all units that it charged, so `&[]` settles as charged.
    pub const fn settle(key: &'a [u8], id: HoldId, used: &'a [Option<u64>]) -> Self {
        Self::new(Operation::Settle { id, used }, key)
    }

    /// Extends the hold of an earlier request about `key`.
    pub const fn renew(key: &'a [u8], id: HoldId, lasts: Span) -> Self {
        Self::new(Operation::Renew { id, lasts }, key)
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

    /// Sets the evaluation time, for a limit opened with [`TimeSource::Injected`].
    #[inline]
    pub fn at(mut self, time: impl Into<Option<Timestamp>>) -> Self {
        self.at = time.into();
        self
    }

    /// Requests a receipt, with which an allowed reservation can be cancelled.
    pub const fn with_receipt(mut self) -> Self {
        self.wants_receipt = true;
        self
    }

    /// Requests a receipt and gives a waiting reservation a queue position under `id`.
    ///
    /// The position can be cancelled once, before its instant. If later reservations exist by then,
    /// the next caller may take over the turn. Waiting reservations of one subject must have
    /// different ids. For several limits together this has no effect.
    pub const fn in_line_as(mut self, id: &'a HoldId) -> Self {
        self.wants_receipt = true;
        self.place_id = Some(id);
        self
    }

    /// Attaches the requests and reports of a lease holder. A store without leases ignores them.
    pub const fn leasing(mut self, leasing: &'a Leasing<'a>) -> Self {
        self.leasing = Some(leasing);
        self
    }

    /// Stores a record of the charged units, so that the real use can be [settled](Request::settle)
    /// later.
    ///
    /// Applies to an allowed check, charge or take.
    pub const fn hold(mut self, hold: &'a Hold) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Lets a check that [holds](Request::hold) its units wait in the queue of the limit's permits.
    ///
    /// If there are too few units, the check gets a ticket under the id of its hold, or keeps the
    /// one it has. The decision is a denial with the ticket's [position](crate::Decision::queued).
    /// The first waiter takes its units by sending the request again. [Settling](Request::settle)
    /// the hold's id leaves the queue. A request with [an id](Request::idempotent) can't wait, because a
    /// waiter repeats its request.
    pub const fn waiting(mut self, ticket: &'a Ticket) -> Self {
        self.ticket = Some(ticket);
        self
    }

    /// Gives a check, a charge or a take an id, so that a repeat charges nothing.
    ///
    /// Once the request was allowed, a repeat gets the same decision, regardless of what happened
    /// to the units since. A denial isn't remembered. One call of the store must decide, so the
    /// subjects must not lie in several slots of a cluster.
    pub const fn idempotent(mut self, once: Idempotency) -> Self {
        self.once = Some(once);
        self
    }

    /// Sets how long the caller waits for a connection, in addition to the deadline of its call.
    ///
    /// It applies to a store that isn't connected yet. Without it, connecting must fit into that
    /// deadline.
    pub const fn connecting_within(mut self, span: Span) -> Self {
        self.time_to_connect = span;
        self
    }

    /// Sets the operation.
    pub const fn with_operation(mut self, operation: Operation<'a>) -> Self {
        self.operation = operation;
        self
    }

    /// Changes the request into a peek, which is answered like a check and writes nothing.
    pub const fn as_peek(mut self) -> Self {
        self.operation = Operation::Peek;
        self.wants_receipt = false;
        self.place_id = None;
        self.leasing = None;
        self.hold = None;
        self.once = None;
        self.ticket = None;
        self
    }

    /// Removes the request for a receipt.
    pub const fn without_receipt(mut self) -> Self {
        self.wants_receipt = false;
        self.place_id = None;
        self
    }

    /// Removes the hold and the ticket.
    pub const fn without_hold(mut self) -> Self {
        self.hold = None;
        self.ticket = None;
        self
    }

    /// Removes the ticket, so the request doesn't wait.
    pub const fn without_ticket(mut self) -> Self {
        self.ticket = None;
        self
    }

    /// Removes the id.
    pub const fn without_once(mut self) -> Self {
        self.once = None;
        self
    }

    /// Removes the requests and reports of a lease holder.
    pub const fn without_leasing(mut self) -> Self {
        self.leasing = None;
        self
    }

    /// Returns the subject, any bytes. For several limits together, returns the subject of the
    /// first part.
    #[must_use]
    #[inline]
    pub const fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Returns the subject of a part, by its index in [`Limit::parts`].
    #[must_use]
    pub fn subject(&self, part: usize) -> &'a [u8] {
        match (self.operation, part.checked_sub(1)) {
            (Operation::Cancel(receipt), _) => receipt.subject(part),
            (_, Some(also)) => self.also.get(also).copied().unwrap_or_default(),
            (_, None) => self.key,
        }
    }

    /// Returns the subjects of the parts after the first.
    #[must_use]
    #[inline]
    pub const fn further_subjects(&self) -> &'a [&'a [u8]] {
        self.also
    }

    /// Returns the operation of the request.
    #[must_use]
    #[inline]
    pub const fn operation(&self) -> Operation<'a> {
        self.operation
    }

    /// Returns the costs of the request.
    #[must_use]
    #[inline]
    pub const fn cost(&self) -> Costs<'a> {
        self.costs
    }

    /// Returns the evaluation time; `None` for the store's clock.
    #[must_use]
    #[inline]
    pub const fn time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns `true` if the request asks for a receipt.
    #[must_use]
    pub const fn wants_receipt(&self) -> bool {
        self.wants_receipt
    }

    /// Returns the id for the queue position of a waiting reservation.
    #[must_use]
    pub fn place_id(&self) -> Option<HoldId> {
        self.place_id.copied()
    }

    /// Returns `true` if the request can take or release a turn in the reservation queue of its
    /// subject.
    ///
    /// Several limits together have no reservation queue.
    #[must_use]
    pub fn is_in_line(&self, limit: &Limit) -> bool {
        limit.parts().len() == 1
            && match self.operation {
                Operation::Reserve { within } => within > Span::ZERO,
                Operation::Cancel(receipt) => receipt.place().is_some(),
                _ => false,
            }
    }

    /// Returns the requests and reports of a lease holder.
    #[must_use]
    #[inline]
    pub const fn leases(&self) -> Option<&'a Leasing<'a>> {
        self.leasing
    }

    /// Returns the hold that an allowed request leaves.
    #[must_use]
    #[inline]
    pub const fn holds(&self) -> Option<&'a Hold> {
        self.hold
    }

    /// Returns the id of the request, and how long its repeats are known.
    #[must_use]
    #[inline]
    pub const fn idempotency(&self) -> Option<Idempotency> {
        self.once
    }

    /// Returns the ticket for a request that can't be allowed yet.
    #[must_use]
    #[inline]
    pub const fn ticket(&self) -> Option<&'a Ticket> {
        self.ticket
    }

    /// Returns the time for a connection, in addition to the deadline of the call.
    #[must_use]
    #[inline]
    pub const fn time_to_connect(&self) -> Span {
        self.time_to_connect
    }

    /// Returns `true` if the request is about holds: it creates, settles or renews one.
    #[must_use]
    #[inline]
    pub const fn is_about_holds(&self) -> bool {
        self.hold.is_some()
            || matches!(self.operation, Operation::Settle { .. } | Operation::Renew { .. })
    }

    /// Returns `true` if a store needs the subjects' books to answer the request.
    ///
    /// This is the case if the request is about holds, the reservation queue or pauses, or has an
    /// id. It is also the case if the limit counts units in flight, returns unsettled holds, or
    /// bans subjects. While a subject may be paused, a store needs its book for every request.
    #[must_use]
    #[inline]
    pub fn needs_books(&self, limit: &Limit) -> bool {
        self.needs_records(limit)
            || self.once.is_some()
            || limit.has_bans()
            || self.is_in_line(limit)
            || self.changes_pauses()
    }

    /// Returns `true` if a store needs the records of holds to answer the request.
    ///
    /// This is the case if the request is about holds, or if the limit counts units in flight or
    /// returns unsettled holds.
    #[must_use]
    #[inline]
    pub fn needs_records(&self, limit: &Limit) -> bool {
        self.is_about_holds() || limit.has_permits() || limit.has_returns()
    }

    /// Returns `true` if the request sets or ends pauses.
    #[must_use]
    #[inline]
    pub const fn changes_pauses(&self) -> bool {
        self.operation.changes_pauses()
    }

    /// Returns the cost under the policy at `index` of the limit.
    #[must_use]
    pub fn cost_of(&self, limit: &Limit, index: usize) -> u64 {
        self.costs.of(limit, index)
    }
}
