//! Requests to an opened limit: an operation on a subject, with its costs.

use crate::ban::Ban;
use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::{Hold, HoldId, Used, validate_life};
use crate::lease::Leasing;
use crate::limit::Limit;
use crate::number::{Cost, MAX_EXACT};
use crate::receipt::Receipt;
use crate::request_id::Once;
use crate::ticket::Ticket;
use crate::time::{Span, Timestamp};

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
    once: Option<Once>,
    ticket: Option<&'a Ticket>,
}

/// What a request asks for. Exhaustive, because a store has to answer all of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action<'a> {
    /// Decide on an operation with costs.
    Decide(Operation),
    /// Undo a reservation, if no request was charged after it, or leave its turn to others if it
    /// [has a place in line](Request::in_line_as). The decision is allowed if it did either, and lists no
    /// policies.
    Cancel(&'a Receipt),
    /// Read the slices of a limit that is a ring, writing nothing. The decision is that of a peek,
    /// and [has the slices](crate::Decision::slices).
    Slices,
    /// Settle what an earlier request [holds](Request::hold) for what was really used. The decision is
    /// that of a peek afterwards at no cost, and [says what was found](crate::Decision::hold_found); it
    /// is allowed unless nothing was.
    Settle {
        /// What the record is called.
        id: HoldId,
        /// How much was used.
        used: Used<'a>,
    },
    /// Let the record of what an earlier request holds live on. The decision is like that of
    /// [`Action::Settle`].
    Renew {
        /// What the record is called.
        id: HoldId,
        /// How long it lives from now on: 1 ms to a day.
        lasts: Span,
    },
}

/// What to do with a subject's states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Ban the subject by hand, whatever it has done, in the place of a ban that it has. Only for limits
    /// with a [`Ban`](crate::Ban). The decision is that of a peek at no cost, and names the ban.
    Ban {
        /// How long the ban lasts from now on: 1 s to 30 d.
        lasts: Span,
    },
    /// Take the cost in any case, going into debt if necessary.
    Charge,
    /// Take the cost, or be denied.
    Check,
    /// Answer like a check, but write nothing.
    Peek,
    /// Give back what is left of the same costs that an allowed request took: never more than they
    /// still withhold from others, so that nobody gains by asking again and again.
    GiveBack {
        /// [`Decision::taken_at`](crate::Decision::taken_at) of that request.
        taken_at: Timestamp,
    },
    /// Lift the subject's ban, and forget its denials and earlier bans. Only for limits with a
    /// [`Ban`](crate::Ban). The decision is that of a peek at no cost, and says whether there was a ban
    /// ([`Decision::forgotten`](crate::Decision::forgotten)).
    LiftBan,
    /// Give the cost back, whoever took it.
    Refund,
    /// Take the cost now and learn when to act. Only for limits of the bucket family.
    Reserve {
        /// The longest wait the caller accepts.
        within: Span,
    },
    /// Forget the subject.
    Reset,
    /// Take as much as every policy admits, up to the cost.
    TakeUpTo,
}

/// What a request costs under each policy of its limit.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Costs<'a> {
    /// Each policy's own cost ([`Policy::cost`](crate::Policy::cost)).
    Own,
    /// The same cost for every policy.
    Same(Cost),
    /// One cost per policy, in the order of the limit, each from 0 to 2^53 − 1. A policy with cost
    /// 0 is not charged and never refuses.
    Each(&'a [u64]),
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
    pub const fn once(mut self, once: Once) -> Self {
        self.once = Some(once);
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
    pub const fn asks_once(&self) -> Option<Once> {
        self.once
    }

    /// What a request is to have that can't be allowed yet.
    #[must_use]
    #[inline]
    pub const fn ticket(&self) -> Option<&'a Ticket> {
        self.ticket
    }

    /// Whether the request is about records of what is held: it leaves one, or goes by one.
    #[must_use]
    #[inline]
    pub const fn is_about_holds(&self) -> bool {
        self.hold.is_some() || matches!(self.action, Action::Settle { .. } | Action::Renew { .. })
    }

    /// Whether a store needs the books of the subjects to answer the request: it is about records of what
    /// is held, it has an id, or the limit counts what is in flight, gives back what is never settled, or
    /// bans subjects.
    #[must_use]
    #[inline]
    pub fn needs_books(&self, limit: &Limit) -> bool {
        self.needs_records(limit) || self.once.is_some() || limit.has_bans()
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

    /// Checks that the request is valid for a limit, whatever its states.
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`] for costs or subjects that don't fit the limit,
    /// [`RequestErrorKind::Unsupported`] for what its policies don't offer.
    pub fn validate(&self, limit: &Limit) -> Result<(), RequestError> {
        match self.hold {
            Some(hold) => self.validate_hold(hold, limit)?,
            None => self.validate_without_hold(limit)?,
        }
        if let Some(once) = self.once {
            once.validate(self, limit)?;
        }
        if let Some(ticket) = self.ticket {
            self.validate_ticket(ticket, limit)?;
        }
        self.validate_apart_from_holds(limit)
    }

    pub(crate) fn validate_apart_from_holds(&self, limit: &Limit) -> Result<(), RequestError> {
        self.validate_subjects(limit)?;
        if let Some(leasing) = self.leasing {
            leasing.validate(limit, self.action)?;
        }
        match self.action {
            Action::Decide(operation) => {
                operation.validate(limit)?;
                self.costs.validate(limit)
            }
            Action::Cancel(receipt) => receipt.validate(limit),
            Action::Slices => crate::slices::SliceCounts::ring(limit).map(drop),
            Action::Settle { used, .. } => used.validate(limit),
            Action::Renew { lasts, .. } => validate_life(lasts, limit),
        }
    }

    /// Checks that the request carries a time if and only if the limit was opened with injected
    /// time.
    ///
    /// # Errors
    /// [`RequestErrorKind::Invalid`] otherwise.
    #[inline]
    pub fn validate_time(&self, limit: &Limit, is_injected: bool) -> Result<(), RequestError> {
        if self.at.is_some() == is_injected { Ok(()) } else { Err(wrong_time(limit, is_injected)) }
    }

    fn validate_hold(&self, hold: &Hold, limit: &Limit) -> Result<(), RequestError> {
        use Operation::{Charge, Check, TakeUpTo};
        let can_hold = matches!(self.action, Action::Decide(Check | Charge | TakeUpTo));
        let why = match (can_hold, self.leasing) {
            (true, None) => return hold.validate(limit),
            (true, Some(leasing)) if leasing.want == 0 => return hold.validate(limit),
            (true, Some(_)) => "it can't want a lease too",
            (false, _) => "only a check, a charge and a partial grant can hold what they take",
        };
        let message = format!("the request can't hold anything: {why}");
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    fn validate_ticket(&self, ticket: &Ticket, limit: &Limit) -> Result<(), RequestError> {
        if self.once.is_some() {
            let message = "a request with an id can't wait in a queue: wait without one, for who waits \
                           has its place by the id of what it is to hold";
            return Err(RequestError::new(RequestErrorKind::Unsupported, message));
        }
        if self.hold.is_some() && self.action == Action::Decide(Operation::Check) {
            self.costs.validate(limit)?;
            return ticket.validate(self, limit);
        }
        let message = "the request can't wait: only a check that holds what it takes can";
        Err(RequestError::new(RequestErrorKind::Invalid, message))
    }

    /// A permit that nobody holds could never be given back.
    fn validate_without_hold(&self, limit: &Limit) -> Result<(), RequestError> {
        let Action::Decide(operation) = self.action else { return Ok(()) };
        let is_refused = operation.takes() || matches!(operation, Operation::GiveBack { .. });
        if !is_refused || !limit.has_permits() {
            return Ok(());
        }
        let name = limit.name();
        let message = if operation.takes() {
            format!(
                "limit `{name}` counts what is in flight, so a request has to hold what it takes"
            )
        } else {
            format!(
                "limit `{name}` counts what is in flight, which is given back by settling a hold"
            )
        };
        Err(RequestError::new(RequestErrorKind::Unsupported, message))
    }

    fn validate_subjects(&self, limit: &Limit) -> Result<(), RequestError> {
        let parts = limit.parts().len();
        let given = match self.action {
            Action::Cancel(_) => return Ok(()),
            Action::Decide(_) | Action::Slices | Action::Settle { .. } | Action::Renew { .. } => {
                self.also.len() + 1
            }
        };
        if given == parts {
            return Ok(());
        }
        Err(RequestError::new(
            RequestErrorKind::Invalid,
            format!(
                "limit `{}` needs {parts} subjects, one for each of its parts, but {given} were given",
                limit.name(),
            ),
        ))
    }
}

impl Action<'_> {
    /// The number of the action in the protocol with scripts in other languages.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Decide(Operation::Check) => 1,
            Self::Decide(Operation::Peek) => 2,
            Self::Decide(Operation::Reserve { .. }) => 3,
            Self::Decide(Operation::TakeUpTo) => 4,
            Self::Decide(Operation::Charge) => 5,
            Self::Decide(Operation::Refund) => 6,
            Self::Decide(Operation::GiveBack { .. }) => 7,
            Self::Slices => 8,
            Self::Decide(Operation::Reset) => 9,
            Self::Settle { .. } => 10,
            Self::Renew { .. } => 11,
            Self::Cancel(_) => 12,
            Self::Decide(Operation::Ban { .. }) => 14,
            Self::Decide(Operation::LiftBan) => 15,
        }
    }

    /// The longest wait that the caller of a reservation accepts, in µs.
    #[must_use]
    pub const fn within(self) -> Option<u64> {
        match self {
            Self::Decide(operation) => operation.within(),
            _ => None,
        }
    }

    /// When the units were taken that are given back, in µs since the epoch.
    #[must_use]
    pub const fn taken_at(self) -> Option<u64> {
        match self {
            Self::Decide(Operation::GiveBack { taken_at }) => Some(taken_at.as_micros()),
            _ => None,
        }
    }
}

impl Operation {
    /// The longest wait that the caller of a reservation accepts, in µs.
    #[must_use]
    pub const fn within(self) -> Option<u64> {
        match self {
            Self::Reserve { within } => Some(within.as_micros()),
            _ => None,
        }
    }

    /// Whether an allowed request takes units.
    pub(crate) const fn takes(self) -> bool {
        matches!(self, Self::Check | Self::Reserve { .. } | Self::TakeUpTo | Self::Charge)
    }

    /// Whether an allowed request is granted what it asks for, be it only in words.
    pub(crate) const fn grants(self) -> bool {
        self.takes() || matches!(self, Self::Peek)
    }

    /// Whether a ban refuses it.
    pub(crate) const fn heeds_bans(self) -> bool {
        matches!(self, Self::Check | Self::Peek | Self::Reserve { .. } | Self::TakeUpTo)
    }

    fn validate(self, limit: &Limit) -> Result<(), RequestError> {
        if let Self::Ban { .. } | Self::LiftBan = self {
            return self.validate_ban(limit);
        }
        if !matches!(self, Self::Reserve { .. }) || limit.can_reserve() {
            return Ok(());
        }
        Err(RequestError::new(
            RequestErrorKind::Unsupported,
            format!(
                "limit `{}` can't reserve: every policy has to be of the bucket family \
                 (token_bucket, gcra, leaky_bucket, shaper, smooth, warmup)",
                limit.name()
            ),
        ))
    }
}

impl Operation {
    fn validate_ban(self, limit: &Limit) -> Result<(), RequestError> {
        let name = limit.name();
        let unsupported = |message| Err(RequestError::new(RequestErrorKind::Unsupported, message));
        if limit.parts().len() > 1 {
            return unsupported(format!(
                "limit `{name}` is several together: ban subjects under each of them by itself"
            ));
        }
        if !limit.has_bans() {
            return unsupported(format!(
                "limit `{name}` bans nobody: give it a `ban`, such as `5/1min for 15min`"
            ));
        }
        let (shortest, longest) = (Ban::SHORTEST, Ban::LONGEST);
        match self {
            Self::Ban { lasts } if !(shortest..=longest).contains(&lasts) => {
                Err(RequestError::new(
                    RequestErrorKind::Invalid,
                    format!("a ban can't last {lasts}: it lasts from {shortest} to {longest}"),
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Costs<'_> {
    /// The cost under the policy at `index` of a limit.
    #[must_use]
    pub fn of(self, limit: &Limit, index: usize) -> u64 {
        match self {
            Self::Own => limit.members()[index].policy().cost().get(),
            Self::Same(cost) => cost.get(),
            Self::Each(each) => each[index],
        }
    }

    fn validate(self, limit: &Limit) -> Result<(), RequestError> {
        let Self::Each(each) = self else {
            return Ok(());
        };
        let policies = limit.members().len();
        if each.len() != policies {
            let message = format!(
                "{} costs were given for the {policies} policies of limit `{}`",
                each.len(),
                limit.name()
            );
            return Err(RequestError::new(RequestErrorKind::Invalid, message));
        }
        match each.iter().find(|&&cost| cost > MAX_EXACT) {
            Some(cost) => Err(RequestError::new(
                RequestErrorKind::Invalid,
                format!("cost is {cost}, but must be a whole number from 0 to {MAX_EXACT}"),
            )),
            None => Ok(()),
        }
    }
}

#[cold]
fn wrong_time(limit: &Limit, is_injected: bool) -> RequestError {
    let name = limit.name();
    let message = if is_injected {
        format!(
            "the request carries no time, but limit `{name}` was opened with injected time: set `at`"
        )
    } else {
        format!(
            "the request carries a time, but limit `{name}` was opened with the store's own clock: leave \
             `at` out, or open the limit with TimeSource::Injected"
        )
    };
    RequestError::new(RequestErrorKind::Invalid, message)
}
