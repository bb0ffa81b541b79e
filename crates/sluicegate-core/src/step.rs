//! One request against all policies of a limit: all are judged, then all are charged or none.

mod banning;
pub(crate) mod holding;
mod judge;
mod lease;
mod line;
pub(crate) mod permits;
mod queueing;
mod repeat;
mod returning;
mod standing;

use smallvec::SmallVec;

use crate::book::Book;
use crate::decision::{Decision, Notes};
use crate::failure::{Error, RequestError, RequestErrorKind};
use crate::kernel::opened::Opened;
use crate::kernel::{Account, Kernel as _, Now, Overflow, Rule, State, Taken};
use crate::limit::Limit;
use crate::line::Place;
use crate::record;
use crate::request::{Action, Costs, Operation, Request};
use crate::slices::SliceCounts;
use crate::stored::Stored;

use banning::Bans;
use judge::{Charging, Judge};
use queueing::Queueing;

/// The decision on a request, and what to write.
#[derive(Clone, Debug)]
pub struct Step {
    /// The decision.
    pub decision: Decision,
    /// The policies whose states changed, as bits in the order of the limit. The store has to write
    /// what is now held for them, and to remove the state where nothing is held.
    pub changed: u64,
    /// For how many µs from now the store has to keep the states of each part at least; `u64::MAX`
    /// means for ever. One number per part of the limit.
    pub lives: SmallVec<[u64; 4]>,
    /// The parts whose books changed, as bits: records of what is held, or denials and bans. The store has
    /// to write those.
    pub books: u64,
    forgets: bool,
}

impl Step {
    /// Whether the store has to forget the subjects, including states that it didn't pass in.
    #[must_use]
    pub const fn forgets(&self) -> bool {
        self.forgets
    }
}

/// Decides on a request: the complete semantics of a decision, as a pure function.
///
/// `held` is what the store holds for each policy, in the order of the limit; afterwards it is what
/// the store should hold. States that didn't change stay as they were, and all do on an error.
///
/// ```
/// use sluicegate_core::{Limit, Now, Request, step};
///
/// let limit = Limit::new("login".parse()?, vec!["gcra 1/s".parse()?])?;
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
/// [`Error::Request`] if the costs don't fit the limit, if its policies don't support the
/// operation, or if a state can't hold the cost or debt. [`RequestErrorKind::Unsupported`] for what is
/// about holds or has an id: that is for [`step_with_books`].
pub fn step(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    held: &mut [Option<Stored>],
) -> Result<Step, Error> {
    step_with_books(limit, request, now, held, &mut [])
}

/// [`step`] for requests that hold what they take, for those that settle it, and for requests with an id.
///
/// `books` has the records of the subject of each part of the limit; afterwards it has what the store
/// should keep, of the parts that [`Step::books`] names. A reset ends all that is held: a store that
/// [forgets](Step::forgets) the subjects [forgets that](Book::forget_holds) too.
///
/// ```
/// use sluicegate_core::{Book, Hold, HoldId, Limit, Now, Request, Span, Used, step_with_books};
///
/// let limit = Limit::new("llm".parse()?, vec!["fixed_window 1000/h as tokens".parse()?])?;
/// let (mut held, mut books) = ([None], [Book::default()]);
/// let mut ask = |request: &Request<'_>| {
///     let now = Now { micros: 0, max_clock_back: None };
///     step_with_books(&limit, request, now, &mut held, &mut books).map(|step| step.decision)
/// };
/// let hold = Hold { id: HoldId::from_bytes([7; 16]), lasts: Span::MINUTE };
/// let estimate = sluicegate_core::Costs::Each(&[400]);
/// assert!(ask(&Request::check(b"alice").costs(estimate).hold(&hold))?.is_allowed());
/// let settled = ask(&Request::settle(b"alice", hold.id, Used::Each(&[Some(250)])))?;
/// assert_eq!(settled.policy(0).and_then(|outcome| outcome.given_back()), Some(150));
/// assert_eq!(settled.remaining(), Some(750));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`step`]; [`RequestErrorKind::Conflict`] for a hold whose id is in use, and for a request whose
/// id is that of one which asked something else; [`RequestErrorKind::Full`] where a subject has as many holds
/// or ids as it may.
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
    match request.action() {
        Action::Decide(operation) => decide(limit, request, operation, now, held, books),
        Action::Cancel(receipt) => Ok(line::cancel(limit, receipt, now, held, books)),
        Action::Slices => read_slices(limit, now, held),
        Action::Settle { id, used } => {
            returning::first(limit, now, (held, books), false, |held, books| {
                holding::settle(limit, request, (id, used), now, held, books)
            })
        }
        Action::Renew { id, lasts } => {
            returning::first(limit, now, (held, books), false, |held, books| {
                holding::renew(limit, request, (id, lasts), now, held, books)
            })
        }
    }
}

/// [`step`] for a store that has decided about a request itself, over the states as they were: so it says
/// the same. What is held or known under an id, and counted by that, is that store's business; `books` has the
/// denials and bans of each part's subject ([`Book::of_ban`]), and may be empty if the limit bans nobody. A request
/// with a [ticket](Request::waiting) is one that waits by now.
///
/// # Errors
/// Those of [`step`].
pub fn step_again(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    held: &mut [Option<Stored>],
    books: &mut [Book],
) -> Result<Step, Error> {
    let plain = request.without_hold().without_once();
    let request = request.ticket().map_or(plain, |ticket| plain.waiting(ticket));
    match request.action() {
        Action::Decide(operation) => {
            request.validate_apart_from_holds(limit)?;
            decide(limit, &request, operation, now, held, books)
        }
        _ => step_with_books(limit, &request, now, held, books),
    }
}

/// [`step_again`] on a reservation that took this turn, if it took one.
///
/// # Errors
/// Those of [`step`].
pub fn step_again_in_line(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    held: &mut [Option<Stored>],
    (books, turn): (&mut [Book], Option<Place>),
) -> Result<Step, Error> {
    match (turn, request.action()) {
        (Some(turn), Action::Decide(operation)) => {
            request.validate_apart_from_holds(limit)?;
            let ban = books.first().and_then(Book::ban);
            let mut books = [Book::of_turn(turn).with_ban(ban)];
            decide(limit, request, operation, now, held, &mut books)
        }
        _ => step_again(limit, request, now, held, books),
    }
}

/// Whether a request needs records: a store that counts what is in flight itself has done so.
fn needs_books(limit: &Limit, request: &Request<'_>, held: &[Option<Stored>]) -> bool {
    let is_reset = request.action() == Action::Decide(Operation::Reset);
    let mut members = limit.members().iter().zip(held);
    request.is_about_holds()
        || request.asks_once().is_some()
        || limit.has_bans()
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
            "limit `{}` is in a store that can't hold units, ban subjects, or know requests by their ids",
            limit.name()
        ),
    )
}

/// The decision on a check that a store has admitted and charged itself, from the states after the
/// charge: every policy admitted, and none makes the caller wait.
///
/// # Errors
/// [`Error::Request`] if a state can't be converted to its policy's numbers.
pub fn admitted(
    limit: &Limit,
    costs: Costs<'_>,
    held: impl IntoIterator<Item = Option<Stored>>,
) -> Result<Decision, Error> {
    let mut judge = Judge::new(limit);
    for (member, held) in limit.members().iter().zip(held) {
        // Just written: the newest time is the time of judgement.
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

fn decide(
    limit: &Limit,
    request: &Request<'_>,
    operation: Operation,
    now: Now,
    held: &mut [Option<Stored>],
    books: &mut [Book],
) -> Result<Step, Error> {
    if let Some(step) = repeat::answer(limit, request, now, books)? {
        return Ok(step);
    }
    let bans = Bans::open(limit, now, books);
    if operation.heeds_bans()
        && let Some(banned) = bans.refusal(request)
    {
        let decision = Decision::banned(limit, banned, bans.are_restamped());
        let books = if operation == Operation::Peek { 0 } else { bans.keep(books) };
        let lives = if books == 0 { SmallVec::new() } else { lives(limit, now, held) };
        return Ok(Step { decision, changed: 0, lives, books, forgets: false });
    }
    if let Some(hold) = request.holds() {
        holding::can_leave(limit, hold, now, books)?;
    }
    if operation == Operation::Reset {
        return decide_now(limit, (request, operation), now, held, books, bans);
    }
    let only_looks = operation == Operation::Peek;
    returning::first(limit, now, (held, books), only_looks, |held, books| {
        decide_now(limit, (request, operation), now, held, books, bans)
    })
}

/// Decides on a request that is neither a repeat nor refused by a ban.
fn decide_now(
    limit: &Limit,
    (request, operation): (&Request<'_>, Operation),
    now: Now,
    held: &mut [Option<Stored>],
    books: &mut [Book],
    mut bans: Bans<'_>,
) -> Result<Step, Error> {
    let costs = request.cost();
    let forgotten = held.iter().any(Option::is_some);
    let mut restamped = false;
    if operation == Operation::Reset {
        restamped = forget(limit, held, now)?;
    }
    let before = (request.wants_receipt() && operation.within().is_some()).then(|| held.to_vec());
    let stored = request.holds().map(|_| holding::stored(held));
    let mut judge = Judge::new(limit);
    judge.open(now, held)?;
    if operation != Operation::Reset {
        judge.count_flights(request, now, books);
    }
    if let Some(leasing) = request.leases() {
        judge.report(leasing.reports);
    }
    let mut took_turn = false;
    let ruled = match operation {
        Operation::Check => judge.check(costs, None, Charging::Now),
        Operation::Reserve { within } => {
            let book = line::of(limit, books);
            judge.reserve(costs, within.as_micros(), now, book).map(|(ruled, taken)| {
                took_turn = taken;
                ruled
            })
        }
        Operation::Peek => judge.check(costs, None, Charging::Never),
        Operation::TakeUpTo => judge.take_up_to(costs),
        Operation::Charge => judge.charge(costs),
        Operation::Refund => Ok(judge.refund(costs, Account::refund)),
        Operation::GiveBack { taken_at } => Ok(judge.refund(costs, |account, units| {
            account.give_back(Taken::at(units, taken_at.as_micros()))
        })),
        Operation::Reset => judge.reset(costs, now),
        Operation::Ban { .. } | Operation::LiftBan => {
            judge.pass_all(Costs::Each(&PerPolicy::from_elem(0, limit.members().len())));
            Ok((true, 0))
        }
    };
    let (allowed, granted) = match ruled {
        Ok(ruled) => ruled,
        Err(error) => {
            judge.close(held, 0);
            return Err(error.into());
        }
    };
    let pins = request.holds().filter(|_| allowed);
    let pins = pins.map(|hold| judge.hold(hold, operation, now));
    let lease = match (operation, request.leases()) {
        (Operation::Check, Some(leasing)) if allowed => judge.lease(costs, leasing, now),
        _ => None,
    };
    let queueing = match request.ticket() {
        Some(_) => queueing::queue(&mut judge, request, allowed, now, books),
        None => Queueing::Nothing,
    };
    // What a store has judged has its ticket by now.
    let waits = queueing.waits() || request.holds().is_none() && request.ticket().is_some();
    let is_restamped =
        restamped || judge.restamped != 0 || operation != Operation::Reset && bans.are_restamped();
    let notes = Notes { restamped: is_restamped, ..Notes::default() };
    let mut decision = judge.decision(allowed, granted, operation.takes()).with_notes(notes);
    if let Some(lease) = lease {
        decision = decision.with_lease(lease);
    }
    decision = match operation {
        Operation::Reset => decision.of_ban(None, Some(forgotten)),
        Operation::Ban { lasts } => decision.of_ban(bans.begin(lasts), None),
        Operation::LiftBan => decision.of_ban(None, Some(bans.lift())),
        // Who waits isn't turned away.
        _ if operation.takes() && !allowed && !waits => match bans.count(&judge) {
            Some(ban) => decision.with_ban(ban),
            None => decision,
        },
        _ => decision,
    };
    let changed = match operation {
        Operation::Peek => 0,
        Operation::Reset => u64::MAX >> (u64::BITS as usize - limit.members().len()),
        _ => judge.changed | judge.restamped,
    };
    let lives = judge.lives(now, changed);
    let charged = stored
        .filter(|_| allowed)
        .map(|stored| holding::charged(&judge, operation, stored, pins.unwrap_or_default()));
    let place = line::keep(&judge, request, allowed, now, books);
    judge.close(held, changed);
    let mut kept = match operation {
        Operation::Peek | Operation::Reset => 0,
        _ => bans.keep(books),
    };
    kept |= u64::from(took_turn || place.is_some());
    if let Some((hold, charged)) = request.holds().zip(charged) {
        let left = holding::leave(limit, hold, now, charged, held, &lives, books);
        kept |= left;
        if left != 0 {
            decision = decision.with_hold(*hold);
        }
    }
    if !allowed && request.holds().is_some() {
        kept |= holding::make_room(limit, now, books);
        kept |= queueing.make_room(limit, now, books);
    }
    kept |= repeat::keep(limit, request, now, &decision, books);
    let (queued, changed_book) = queueing.finish(request, &decision, now, books);
    kept |= changed_book;
    if let Some(queued) = queued {
        decision = decision.with_queued(queued);
    }
    if operation == Operation::Reset {
        held.iter_mut().filter(|held| !matches!(held, Some(Stored::Leased(_)))).for_each(|held| {
            *held = None;
        });
    }
    if let Some(before) = before.filter(|_| decision.is_allowed()) {
        // Who took a turn has changed nothing that could be put back.
        let before = if took_turn { held.to_vec() } else { before };
        decision = decision.with_receipt(record::receipt(limit, request, &before, held, place));
    }
    Ok(Step { decision, changed, lives, books: kept, forgets: operation == Operation::Reset })
}

/// For how long the states have to be kept that stay as they are.
#[cold]
fn lives(limit: &Limit, now: Now, held: &mut [Option<Stored>]) -> SmallVec<[u64; 4]> {
    let mut judge = Judge::new(limit);
    // Those that can't be judged are kept as long as may be.
    if judge.open(now, held).is_err() {
        return SmallVec::from_elem(u64::MAX, limit.parts().len());
    }
    let lives = judge.lives(now, 0);
    judge.close(held, 0);
    lives
}

/// Forgets all but what is outstanding. Whether any of that was stamped too far ahead.
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
    let bans = Bans::open(limit, now, &[]);
    let asked = (&request, Operation::Peek);
    let peeked = decide_now(limit, asked, now, &mut [state], &mut [], bans)?;
    let notes = Notes { restamped, ..Notes::default() };
    let decision = peeked.decision.with_notes(notes).with_slices(slices);
    Ok(Step { decision, changed: 0, lives: SmallVec::new(), books: 0, forgets: false })
}

/// Brings what is held for a policy to the time of judgement: the account, what is outstanding, and
/// whether the state was restamped.
fn open(rule: &Rule, held: Option<Stored>, now: Now) -> Result<Opened<'_>, Overflow> {
    let (account, restamped) = match held {
        Some(Stored::Reading(reading)) => (Account::Read(reading), reading.restamped),
        Some(Stored::Leased(leased)) => return leased.open(rule, now),
        Some(Stored::State(state)) => Account::open(rule, Some(state), now)?,
        None => Account::open(rule, None, now)?,
    };
    Ok(Opened { account, slots: Vec::new(), bound: None, restamped })
}
