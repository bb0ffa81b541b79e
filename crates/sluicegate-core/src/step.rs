//! One request against all policies of a limit: all are evaluated, then all are charged, or none.
//!
//! A decision also has effects. Each effect has a file with its work before the decision, with the
//! charge, and after the decision. [`decide`] and [`evaluate`] call them in the order in which they
//! act:
//!
//! | effect | before | with the charge | after |
//! | --- | --- | --- | --- |
//! | [`id`] | answers a repeat | | remembers what is allowed |
//! | [`ban`] | refuses banned subjects | | counts denials, begins bans |
//! | [`pause`] | refuses paused subjects | | sets and ends pauses |
//! | [`hold`] | checks that a record fits | puts units into slots | leaves the record |
//! | [`returns`] | gives back expired holds | | |
//! | [`line`] | | takes a turn | keeps a place, writes the receipt |
//! | [`queue`] | counts units in flight | counts a ticket's units | writes the ticket |
//! | [`lease`] | counts what holders report | takes units ahead | |

mod ban;
pub(crate) mod decided;
pub(crate) mod hold;
mod id;
mod judge;
mod lease;
mod line;
mod pause;
pub(crate) mod permits;
pub(crate) mod queue;
mod refusals;
mod returns;
pub(crate) mod settle;

use smallvec::SmallVec;

use crate::book::Book;
use crate::decision::DecisionForStores as _;
use crate::decision::{Decision, Warnings};
use crate::failure::{Error, RequestError, RequestErrorKind};
use crate::kernel::opened::Opened;
use crate::kernel::{Account, Kernel as _, Now, Overflow, Rule, State, Taken};
use crate::limit::Limit;
use crate::request::{Costs, Operation, Request};
use crate::slices::SliceCounts;
use crate::stored::Stored;

use hold::ToHold;
use judge::Judge;
use line::InLine;
use refusals::Refusals;

/// The decision on a request, and what to write.
#[derive(Clone, Debug)]
pub struct Step {
    /// The decision.
    pub decision: Decision,
    /// The policies whose states changed, as bits in the order of the limit. The store must write
    /// their new states, and remove a state that no longer exists.
    pub changed: u64,
    /// The minimum retention of each part's states, in µs from now; `u64::MAX` means that they
    /// never expire. One number per part of the limit.
    pub lives: SmallVec<[u64; 4]>,
    /// The parts whose books changed, as bits: holds, denials and bans, or pauses. The store must write
    /// those books.
    pub books: u64,
    forgets: bool,
}

impl Step {
    /// Creates a step that changes nothing.
    fn of(decision: Decision) -> Self {
        Self { decision, changed: 0, lives: SmallVec::new(), books: 0, forgets: false }
    }

    /// Returns `true` if the store must forget the subjects, including states that it didn't pass
    /// in.
    #[must_use]
    pub const fn forgets(&self) -> bool {
        self.forgets
    }
}

/// Decides on a request: the complete semantics of a decision, as a pure function.
///
/// `held` is what the store holds for each policy, in the order of the limit. Afterwards it is what
/// the store should hold. Unchanged states aren't modified, and after an error no state is.
///
/// ```
/// use sluicegate_core::for_stores::{Now, step};
/// use sluicegate_core::{Limit, Request};
///
/// let limit = Limit::new("login", vec!["gcra 1/s"])?;
/// let mut held = [None];
/// let mut check = |micros| {
///     step(&limit, &Request::check(b"alice"), Now { micros, max_clock_back: None }, &mut held)
/// };
/// assert!(check(0)?.decision.is_allowed());
/// assert!(check(999_999)?.decision.is_denied());
/// assert!(check(1_000_000)?.decision.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`Error::Request`] if the costs don't fit the limit, or its policies don't support the
/// operation. Also returns it if a state can't hold the cost or debt. Returns
/// [`RequestErrorKind::Unsupported`] for a request that is about holds or has an id; use
/// [`step_with_books`] for those.
pub fn step(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    held: &mut [Option<Stored>],
) -> Result<Step, Error> {
    step_with_books(limit, request, now, held, &mut [])
}

/// Decides like [`step`], and supports requests that create or settle holds, and requests with an
/// id.
///
/// `books` has the records of the subject of each part of the limit. Afterwards it has the records
/// that the store should keep for the parts in [`Step::books`]. A reset ends all holds, so a store
/// that [forgets](Step::forgets) the subjects also [forgets their holds](Book::forget_holds).
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::for_stores::{Book, Now, step_with_books};
/// use sluicegate_core::{Hold, HoldId, Limit, Request};
///
/// let limit = Limit::new("llm", vec!["fixed_window 1000/h as tokens"])?;
/// let (mut held, mut books) = ([None], [Book::default()]);
/// let mut ask = |request: &Request<'_>| {
///     let now = Now { micros: 0, max_clock_back: None };
///     step_with_books(&limit, request, now, &mut held, &mut books).map(|step| step.decision)
/// };
/// let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Duration::from_secs(60) };
/// let estimate = sluicegate_core::Costs::Each(&[400]);
/// assert!(ask(&Request::check(b"alice").costs(estimate).hold(&hold))?.is_allowed());
/// let settled = ask(&Request::settle(b"alice", hold.id, &[Some(250)]))?;
/// assert_eq!(settled.policy(0).and_then(|outcome| outcome.given_back()), Some(150));
/// assert_eq!(settled.remaining(), Some(750));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`step`]. Returns [`RequestErrorKind::Conflict`] for a hold whose id is in
/// use, and for a request whose id belongs to a request with other content. Returns
/// [`RequestErrorKind::Full`] for a subject with the maximum number of holds or ids.
pub fn step_with_books(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    held: &mut [Option<Stored>],
    books: &mut [Book],
) -> Result<Step, Error> {
    request.validate(limit)?;
    if books.len() != limit.parts().len() && needs_books(limit, request, held) {
        return Err(no_books(limit).into());
    }
    match request.operation() {
        Operation::Cancel(receipt) => Ok(line::cancel(limit, receipt, now, held, books)),
        Operation::Slices => read_slices(limit, now, held),
        Operation::Settle { id, used } => {
            returns::around(limit, now, (held, books), false, |held, books| {
                settle::settle(limit, request, (id, used), now, held, books)
            })
        }
        Operation::Renew { id, lasts } => {
            returns::around(limit, now, (held, books), false, |held, books| {
                settle::renew(limit, request, (id, lasts), now, held, books)
            })
        }
        operation => decide(Call { limit, request, operation, now }, held, books),
    }
}

/// Returns the maximum number of bytes that a request may add to the book of a part.
///
/// `None` if it adds nothing. For bounded stores.
#[must_use]
pub fn growth(limit: &Limit, request: &Request<'_>, part: usize, book: &Book) -> Option<usize> {
    let effects = [
        refusals::growth(limit, request, part, book),
        hold::growth(request, book),
        line::growth(request),
        id::growth(request, book),
    ];
    effects.into_iter().flatten().reduce(usize::saturating_add)
}

/// Returns `true` if a request needs books. Permits need none if the store has counted them itself.
fn needs_books(limit: &Limit, request: &Request<'_>, held: &[Option<Stored>]) -> bool {
    let is_reset = request.operation() == Operation::Reset;
    let mut members = limit.members().iter().zip(held);
    request.is_about_holds()
        || request.idempotency().is_some()
        || limit.has_bans()
        || request.changes_pauses()
        || !is_reset
            && members.any(|(member, held)| {
                matches!(member.policy().rule(), Rule::Permits(_))
                    && !matches!(held, Some(Stored::Reading(_)))
            })
}

#[cold]
fn no_books(limit: &Limit) -> RequestError {
    RequestError::new(
        RequestErrorKind::Unsupported,
        format!(
            "limit `{}` is in a store that can't hold units, ban or pause subjects, or know requests by their ids",
            limit.name()
        ),
    )
}

/// Returns the decision on a check that a store has admitted and charged itself, from the states
/// after the charge.
///
/// All policies have admitted it, and none makes the caller wait.
///
/// # Errors
/// Returns [`Error::Request`] if a state can't be converted to its policy's numbers.
pub fn admitted(
    limit: &Limit,
    costs: Costs<'_>,
    held: impl IntoIterator<Item = Option<Stored>>,
) -> Result<Decision, Error> {
    let mut judge = Judge::new(limit);
    for (member, held) in limit.members().iter().zip(held) {
        // The state was just written, so its newest time is the evaluation time.
        let micros = if let Some(Stored::State(state)) = &held { state.newest() } else { 0 };
        let now = Now { micros, max_clock_back: None };
        judge.accounts.push(open(member.policy().rule(), held, now)?.account);
    }
    judge.pass_all(costs);
    let granted = judge.granted(costs);
    Ok(judge.decision(true, granted, true))
}

/// One value per policy; up to 16 need no allocation.
type PerPolicy<T> = SmallVec<[T; 16]>;

/// A request that a limit decides on.
#[derive(Clone, Copy)]
struct Call<'c> {
    limit: &'c Limit,
    request: &'c Request<'c>,
    operation: Operation<'c>,
    now: Now,
}

/// Decides on a request, unless an effect answers it earlier.
fn decide(call: Call<'_>, held: &mut [Option<Stored>], books: &mut [Book]) -> Result<Step, Error> {
    let Call { limit, request, operation, now } = call;
    if let Some(step) = id::before(call, books)? {
        return Ok(step);
    }
    let refusals = Refusals::before(call, books);
    if let Some(step) = refusals.refuse(call, held, books) {
        return Ok(step);
    }
    if let Some(hold) = request.holds() {
        hold::has_room(limit, hold, now, books)?;
    }
    if operation == Operation::Reset {
        return evaluate(call, held, books, refusals);
    }
    returns::around(limit, now, (held, books), operation == Operation::Peek, |held, books| {
        evaluate(call, held, books, refusals)
    })
}

/// Evaluates all policies and charges them, between the effects before and after.
fn evaluate(
    call: Call<'_>,
    held: &mut [Option<Stored>],
    books: &mut [Book],
    refusals: Refusals<'_>,
) -> Result<Step, Error> {
    let Call { limit, operation, now, .. } = call;
    let forgotten = (operation == Operation::Reset).then(|| held.iter().any(Option::is_some));
    let forgets = forgotten.is_some();
    let restamped = forgets && forget(limit, held, now)?;

    let mut hold = ToHold::before(call, held);
    let mut line = InLine::before(call, held);
    let mut judge = Judge::new(limit);
    judge.open(now, held)?;
    queue::before(call, &mut judge, books);
    lease::before(call, &mut judge);

    let ruled = rule(call, &mut judge, &mut line, books);
    let (allowed, granted) = ruled.inspect_err(|_| judge.close(held, 0))?;

    if let Some(hold) = hold.as_mut().filter(|_| allowed) {
        hold.charge(call, &mut judge);
    }
    let lease = lease::charge(call, &mut judge, allowed);
    let queueing = queue::charge(call, &mut judge, allowed, books);

    let restamped = restamped || judge.restamped != 0 || refusals.are_restamped();
    let warnings = Warnings { restamped, ..Warnings::default() };
    let decision = judge.decision(allowed, granted, operation.takes()).with_warnings(warnings);
    let changed = match operation {
        Operation::Peek => 0,
        Operation::Reset => u64::MAX >> (u64::BITS as usize - limit.members().len()),
        _ => judge.changed | judge.restamped,
    };
    let lives = judge.lives(now, changed);
    judge.close(held, changed);
    let mut step = Step { decision, changed, lives, books: 0, forgets };

    refusals.after(operation, &judge, queueing.waits(), &mut step, books);
    lease::after(lease, &mut step);
    line.after(call, &judge, &mut step, held, books);
    if let Some(hold) = hold {
        hold.after(call, &mut step, held, books);
    }
    id::after(call, &mut step, books);
    queueing.after(call, &mut step, books);
    if let Some(forgotten) = forgotten {
        step.decision.set_forgotten(forgotten);
        held.iter_mut().filter(|held| !matches!(held, Some(Stored::Leased(_)))).for_each(|held| {
            *held = None;
        });
    }
    Ok(step)
}

/// Charges the policies as the operation requires. Returns whether all of them allow the request,
/// and the units it is granted.
fn rule(
    call: Call<'_>,
    judge: &mut Judge<'_>,
    line: &mut InLine,
    books: &mut [Book],
) -> Result<(bool, u64), Overflow> {
    let costs = call.request.cost();
    match call.operation {
        Operation::Check => judge.check(costs),
        Operation::Reserve { within } => line.decide(call, within, judge, books),
        Operation::Peek => Ok(judge.peek(costs)),
        Operation::Take => judge.take(costs),
        Operation::Charge => judge.charge(costs),
        Operation::Refund => Ok(judge.refund(costs, Account::refund)),
        Operation::GiveBack { taken_at } => Ok(judge.refund(costs, |account, units| {
            account.give_back(Taken::at(units, taken_at.as_micros()))
        })),
        Operation::Reset => judge.reset(costs, call.now),
        // Bans and pauses are effects. The others aren't decided here.
        Operation::Ban { .. }
        | Operation::Unban
        | Operation::Pause { .. }
        | Operation::Resume { .. }
        | Operation::Cancel(_)
        | Operation::Slices
        | Operation::Settle { .. }
        | Operation::Renew { .. } => {
            judge.pass_all(Costs::Each(&PerPolicy::from_elem(0, call.limit.members().len())));
            Ok((true, 0))
        }
    }
}

/// Returns how long unchanged states must be kept.
#[cold]
fn lives(limit: &Limit, now: Now, held: &mut [Option<Stored>]) -> SmallVec<[u64; 4]> {
    let mut judge = Judge::new(limit);
    // Keep states that can't be evaluated as long as possible.
    if judge.open(now, held).is_err() {
        return SmallVec::from_elem(u64::MAX, limit.parts().len());
    }
    let lives = judge.lives(now, 0);
    judge.close(held, 0);
    lives
}

/// Forgets everything except for outstanding units. Returns `true` if any of these was stamped too
/// far ahead.
fn forget(limit: &Limit, held: &mut [Option<Stored>], now: Now) -> Result<bool, Overflow> {
    let mut restamped = false;
    for (held, member) in held.iter_mut().zip(limit.members()) {
        *held = match held.take() {
            Some(Stored::Leased(leased)) => {
                restamped |= now.is_exceeded_by(leased.state.newest());
                let left = leased.forgotten(member.policy().rule(), now)?;
                left.map(|left| Stored::Leased(Box::new(left)))
            }
            _ => None,
        };
    }
    Ok(restamped)
}

fn read_slices(limit: &Limit, now: Now, held: &mut [Option<Stored>]) -> Result<Step, Error> {
    let ring = SliceCounts::ring(limit)?;
    let state = match held.first() {
        Some(Some(Stored::State(State::Log(state)))) => Some(state.clone()),
        _ => None,
    };
    let (balance, restamped) = ring.balance(state.clone(), now)?;
    let slices = SliceCounts::of(ring, &balance);
    let state = state.map(|state| Stored::State(State::Log(state)));
    let request = Request::new(Operation::Peek, b"");
    let call = Call { limit, request: &request, operation: Operation::Peek, now };
    let mut peeked = evaluate(call, &mut [state], &mut [], Refusals::before(call, &[]))?;
    peeked.decision.set_warnings(Warnings { restamped, ..Warnings::default() });
    peeked.decision.extras_mut().slices = Some(slices);
    Ok(Step::of(peeked.decision))
}

/// Advances a policy's state to the evaluation time. Returns the account, the outstanding units,
/// and whether the state was restamped.
fn open(rule: &Rule, held: Option<Stored>, now: Now) -> Result<Opened<'_>, Overflow> {
    let (account, restamped) = match held {
        Some(Stored::Reading(reading)) => (Account::Read(reading), reading.restamped),
        Some(Stored::Leased(leased)) => return leased.open(rule, now),
        Some(Stored::State(state)) => Account::open(rule, Some(state), now)?,
        None => Account::open(rule, None, now)?,
    };
    Ok(Opened { account, slots: Vec::new(), bound: None, restamped })
}
