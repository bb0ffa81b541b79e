//! Decodes the reply of a script to a decision.

use bytes::Bytes;
use sluicegate_core::kernel::log::Log;
use sluicegate_core::kernel::{
    Kernel as _, NUMBER_BYTES, Now, Overflow, Reading, Rule, State, Verdict, bucket,
};
use sluicegate_core::record::{Entry, Record, read_numbers};
use sluicegate_core::{
    Action, Book, Change, Costs, Decision, Error, Held, Hold, HoldFound, Limit, MAX_EXACT, Member,
    Notes, Operation, PartReceipt, Place, PlaceName, Queued, Receipt, Request, RequestError,
    StoreError, StoreErrorKind, Timestamp, admitted, step, step_again_in_line,
};
use smallvec::SmallVec;

use crate::ban::read_banned;
use crate::format::{Format, Item};
use crate::hold::{self, GIVEN};
use crate::line;
use crate::once;
use crate::program::{is_apart, is_read_there, kind_of};
use crate::resp::Value;
use crate::stamp::{self, Said, Stamped};

// The verdicts of a script.
pub(crate) const ALLOWED: i64 = 1;
pub(crate) const DENIED: i64 = 0;
/// A state can't hold the cost.
pub(crate) const OVERFLOW: i64 = -1;
/// The boundaries of a calendar policy don't hold its time of judgement.
pub(crate) const ASK_AGAIN: i64 = -2;
/// The subject has as many holds as it may.
pub(crate) const FULL: i64 = -3;
/// The id of the hold is that of another one.
pub(crate) const IN_USE: i64 = -4;

/// It was asked and allowed before: what was decided follows.
pub(crate) const REPEATED: i64 = 2;
/// The id of the request is that of one which asked something else.
pub(crate) const ASKS_OTHERWISE: i64 = -5;
/// The subject has as many ids of requests as it may.
pub(crate) const FULL_OF_IDS: i64 = -6;

/// The decoded reply of a script.
#[derive(Debug)]
pub enum Reply {
    /// A decision.
    Decided(Decision),
    /// The boundaries sent for a calendar policy don't contain the time of judgement. Nothing was
    /// charged.
    AskAgain {
        /// The policy's index in its limit.
        policy: usize,
        /// The time of judgement, in µs.
        at: u64,
    },
}

/// Decodes what the script said to a caller.
///
/// # Errors
/// [`Error::Request`] if the script refused a number that a state can't hold;
/// [`StoreErrorKind::Unexpected`] if the reply makes no sense.
pub fn read_reply(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    said: &Said,
) -> Result<Reply, Error> {
    // The script has seen to that.
    let request = &request.without_once();
    let Stamped { micros, sign, rest, turn } = match said {
        Said::Briefly(stamped) => stamped,
        Said::Fully(items) => return read_verdict(limit, request, max_clock_back, items),
    };
    // Under another clock than the server's, the time to judge by came with the request.
    let micros = request.time().map_or(*micros, Timestamp::as_micros);
    if micros > MAX_EXACT {
        return Err(nonsense("a time that no clock shows"));
    }
    let now = Now { micros, max_clock_back };
    if request.is_about_holds() && matches!(*sign, stamp::ALLOWED | stamp::DENIED) {
        let items = brief_hold(limit, request, micros, *sign == stamp::ALLOWED, rest);
        return read_verdict(limit, request, max_clock_back, &items);
    }
    match *sign {
        stamp::ALLOWED => read_states(limit, request, rest),
        stamp::DENIED => read_denial(limit, request, now, rest),
        stamp::BANNED => read_banned(limit, rest),
        stamp::SEVERAL => read_turn(limit, request, now, rest, *turn),
        // Not what it says: that might repeat what it was sent.
        _ => Err(nonsense("a reply with another sign")),
    }
    .map(Reply::Decided)
}

/// What is said briefly of a hold, as it is said at length: the states as they were, and whether anything is
/// held; of a settlement what was found, what was given back, and the states as they are. Of what is in
/// flight it is a reading instead of states.
fn brief_hold(
    limit: &Limit,
    request: &Request<'_>,
    micros: u64,
    is_allowed: bool,
    rest: &Bytes,
) -> Vec<Value> {
    let mut items = [i64::from(is_allowed), micros.cast_signed(), 0].map(Value::Int).to_vec();
    let is_hold = request.holds().is_some();
    let (given, states) = match rest.len() {
        length if is_hold || length < GIVEN.size() => (None, rest.clone()),
        _ => (Some(rest.slice(..GIVEN.size())), rest.slice(GIVEN.size()..)),
    };
    if limit.has_permits() {
        items.push(Value::Nil);
    }
    items.push(if states.is_empty() { Value::Nil } else { Value::Bytes(states) });
    match given {
        Some(given) => {
            items.push(Value::Int(given[0].into()));
            items.push(Value::Bytes(given.slice(1..)));
        }
        None => items.push(Value::Int(is_allowed.into())),
    }
    items
}

/// The script's fast path admitted: the reply has the states it wrote, rings with only their last
/// two slices.
pub(crate) fn read_states(
    limit: &Limit,
    request: &Request<'_>,
    states: &[u8],
) -> Result<Decision, Error> {
    let record = Record::decode(states);
    let mut discarded = record.is_torn();
    let mut held = Vec::with_capacity(limit.members().len());
    for member in limit.members() {
        let entry = record.entry(member.identity(), kind_of(member.policy().rule()));
        let is_read = match (member.policy().rule(), entry) {
            (Rule::Log(log), entry) if is_apart(member.policy().rule()) => {
                held.push(Some(Held::Reading(admitted_reading(log, entry))));
                entry.is_some()
            }
            (_, entry) => {
                held.push(entry.and_then(|entry| entry.state(member)).map(Held::State));
                held.last().is_some_and(Option::is_some)
            }
        };
        discarded |= !is_read;
    }
    let notes = Notes { discarded, ..Notes::default() };
    Ok(admitted(limit, request.cost(), held)?.with_notes(notes))
}

/// The script's fast path denied: the reply has the states as they were.
fn read_denial(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    states: &[u8],
) -> Result<Decision, Error> {
    let record = Record::decode(states);
    let held = limit.members().iter().map(|member| {
        let entry = record.entry(member.identity(), kind_of(member.policy().rule()))?;
        entry.state(member).map(Held::State)
    });
    denied(limit, request, now, held.collect())
}

fn denied(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    mut held: Vec<Option<Held>>,
) -> Result<Decision, Error> {
    let decision = step(limit, request, now, &mut held)?.decision;
    if decision.is_allowed() {
        Err(nonsense("another verdict than the kernels'"))
    } else {
        Ok(decision)
    }
}

/// The only policy, a bucket, was asked several times: how many passed, and its state after them.
fn read_turn(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    reply: &[u8],
    turn: usize,
) -> Result<Decision, Error> {
    let ([member], Some((passed, state))) = (limit.members(), reply.split_first_chunk()) else {
        return Err(nonsense("a reply to several"));
    };
    let Rule::Bucket(rule) = member.policy().rule() else {
        return Err(nonsense("a reply to several"));
    };
    let later = match usize::from(u16::from_be_bytes(*passed)).checked_sub(turn) {
        None | Some(0) => return read_denial(limit, request, now, state),
        Some(left) => left as u64 - 1,
    };
    let record = Record::decode(state);
    let held = record.entry(member.identity(), kind_of(member.policy().rule()));
    let Some(State::Bucket(after)) = held.and_then(|entry| entry.state(member)) else {
        return Err(nonsense("a state that no bucket has"));
    };
    // Those who came later have charged as much each.
    let ticks = request.cost_of(limit, 0).checked_mul(rule.unit());
    let charged = ticks.and_then(|ticks| ticks.checked_mul(later));
    let deficit = charged.and_then(|charged| after.deficit.checked_sub(charged));
    let deficit = deficit
        .filter(|deficit| ticks.is_some_and(|ticks| ticks <= *deficit))
        .ok_or_else(|| nonsense("a state that no bucket has"))?;
    let state = State::Bucket(bucket::State { deficit, ..after });
    admitted(limit, request.cost(), vec![Some(Held::State(state))])
}

/// The script's general path: verdict, time, the states it saw, and readings of logs.
pub(crate) fn read_verdict(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    items: &[Value],
) -> Result<Reply, Error> {
    let [Value::Int(verdict), Value::Int(now), Value::Int(noted), rest @ ..] = items else {
        return Err(nonsense("an array of another shape"));
    };
    match *verdict {
        REPEATED => {
            let record = rest.first().and_then(bytes).unwrap_or_default();
            return once::read(limit, request, max_clock_back, record).map(Reply::Decided);
        }
        ASKS_OTHERWISE => return Err(RequestError::asks_something_else(limit).into()),
        FULL_OF_IDS => return Err(RequestError::too_many_ids(limit).into()),
        _ => {}
    }
    let Some((states, rest)) = rest.split_at_checked(limit.parts().len()) else {
        return Err(nonsense("the states of too few limits"));
    };
    let micros = exact(*now).ok_or_else(|| nonsense("a time that no clock shows"))?;
    let now = Now { micros, max_clock_back };
    match *verdict {
        OVERFLOW => return Err(Overflow.into()),
        ASK_AGAIN => return read_ask_again(rest),
        FULL => return Err(too_many_holds(limit, request)),
        IN_USE => return Err(id_in_use(limit, request)),
        _ => {}
    }
    let records: Vec<Record<'_>> =
        states.iter().map(|states| Record::decode(bytes(states).unwrap_or_default())).collect();
    let mut discarded = *noted != 0 || records.iter().any(Record::is_torn);
    let mut further = rest.iter();
    let mut held = Vec::with_capacity(limit.members().len());
    for member in limit.members() {
        let rule = member.policy().rule();
        let entry = records[member.part()].entry(member.identity(), kind_of(rule));
        held.push(match request.action() {
            // Nothing of it is left.
            Action::Decide(Operation::Reset) if is_read_there(rule) => None,
            Action::Slices if is_apart(rule) => {
                let entries = further.next().and_then(bytes).unwrap_or_default();
                read_apart(member, entry, entries)?
            }
            _ if is_read_there(rule) => {
                // What is in flight is not restamped.
                let entry = entry.filter(|_| is_apart(rule));
                let newest = entry.and_then(Entry::numbers).map_or(0, |numbers| numbers[0]);
                Some(Held::Reading(read_reading(further.next(), now, newest)?))
            }
            _ => {
                let (state, is_unreadable) = records[member.part()].held(member);
                discarded |= is_unreadable;
                state
            }
        });
    }
    // Who settles or renews is told what a peek at no cost would say.
    let nothing: SmallVec<[u64; 4]> = limit.members().iter().map(|_| 0).collect();
    let read_as = match request.action() {
        Action::Settle { .. } | Action::Renew { .. } => {
            request.as_peek().costs(Costs::Each(&nothing))
        }
        _ => request.without_receipt(),
    };
    let mut books = bans(limit, &records, &mut discarded);
    let is_in_line = request.is_in_line(limit) && *verdict == ALLOWED;
    let (place, rest) = if is_in_line { read_line(rest)? } else { (InLine::default(), rest) };
    let took_turn = place.turn.is_some();
    // Only who waits by now has a ticket.
    let read_as = if is_in_queue(request, rest) { read_as } else { read_as.without_ticket() };
    let stepped = step_again_in_line(limit, &read_as, now, &mut held, (&mut books, place.turn))?;
    // A ban changes the records too.
    if took_turn && stepped.books == 0 {
        return Err(nonsense("a turn that is not to be taken"));
    }
    let mut decision = stepped.decision;
    if decision.is_allowed() != (*verdict == ALLOWED) && request.action() != Action::Slices {
        return Err(nonsense("another verdict than the kernels'"));
    }
    let notes = Notes { discarded, ..decision.notes() };
    decision.set_notes(notes);
    if request.action() == Action::Decide(Operation::Reset) {
        let Some(Value::Int(forgotten)) = rest.last() else {
            return Err(nonsense("a reset that doesn't say what it found"));
        };
        decision.set_forgotten(*forgotten > 0);
    }
    if request.is_about_holds() {
        decision = read_hold(decision, request, rest)?;
    }
    // Only a reservation can be given back.
    let is_reservation = request.action().within().is_some();
    if request.wants_receipt() && is_reservation && decision.is_allowed() {
        let after = rest.get(rest.len().saturating_sub(states.len())..).unwrap_or_default();
        let name = decision.wait().as_micros().checked_add(micros).zip(request.place_id());
        let name = name.filter(|_| place.is_kept).map(|(instant, id)| PlaceName { instant, id });
        // Who took a turn has changed nothing that could be put back.
        let after = if took_turn { &[] } else { after };
        let receipt = receipt(limit, request, states, after).with_place(name);
        decision = decision.with_receipt(receipt);
    }
    Ok(Reply::Decided(decision))
}

/// The denials and bans of each part's subject; none if the limit bans nobody.
fn bans(limit: &Limit, records: &[Record<'_>], discarded: &mut bool) -> SmallVec<[Book; 1]> {
    let book = |(part, record): (usize, &Record<'_>)| {
        let (ban, is_unreadable) = record.ban();
        let ban = ban.filter(|_| limit.ban(part).is_some());
        *discarded |= is_unreadable && limit.ban(part).is_some();
        Book::of_ban(ban)
    };
    let records = records.iter().filter(|_| limit.has_bans()).enumerate();
    records.map(book).collect()
}

/// Whether the script said that a request waits.
fn is_in_queue(request: &Request<'_>, rest: &[Value]) -> bool {
    let is = |state: Option<&u8>| state == Some(&hold::IN_QUEUE);
    request.ticket().is_some() && rest.last().and_then(bytes).is_some_and(|it| is(it.first()))
}

/// What a script says of a reservation in a line.
#[derive(Default)]
struct InLine {
    /// The turn that was taken.
    turn: Option<Place>,
    /// Whether it has a place.
    is_kept: bool,
}

/// What the script said of the line, after all else, and the rest.
fn read_line(rest: &[Value]) -> Result<(InLine, &[Value]), Error> {
    let [rest @ .., Value::Bytes(turn), Value::Int(kept)] = rest else {
        return Err(nonsense("a reservation that doesn't say what became of the line"));
    };
    let turn = if turn.is_empty() {
        None
    } else {
        Some(line::read_place(turn).ok_or_else(|| nonsense("a turn that makes no sense"))?)
    };
    Ok((InLine { turn, is_kept: *kept == 1 }, rest))
}

/// What the script said of a hold, after all else.
fn read_hold(decision: Decision, request: &Request<'_>, rest: &[Value]) -> Result<Decision, Error> {
    if let Some((hold, ticket)) = request.holds().zip(request.ticket()) {
        let [.., Value::Int(kept), Value::Bytes(queued)] = rest else {
            return Err(nonsense("a decision that doesn't say whether it waits"));
        };
        let decision = if *kept == 1 { decision.with_hold(*hold) } else { decision };
        let [state, ahead @ ..] = &queued[..] else {
            return Err(nonsense("a ticket cut short"));
        };
        return match *state {
            hold::NOT_QUEUED => Ok(decision),
            hold::QUEUE_FULL => Ok(decision.with_queued(Queued::Full)),
            hold::IN_QUEUE => Ok(decision.waits(ticket, whole(ahead))),
            _ => Err(nonsense("a ticket of another sort")),
        };
    }
    if let Some(hold) = request.holds() {
        return match rest.last() {
            Some(Value::Int(1)) => Ok(decision.with_hold(*hold)),
            Some(Value::Int(0)) => Ok(decision),
            _ => Err(nonsense("a decision that doesn't say whether it holds anything")),
        };
    }
    let [.., Value::Int(found), Value::Bytes(given)] = rest else {
        return Err(nonsense("a settlement that doesn't say what it found"));
    };
    let found = match *found {
        hold::UNKNOWN => HoldFound::Unknown,
        hold::SETTLED => HoldFound::Settled,
        hold::LIVE => HoldFound::Live,
        hold::WAITED => HoldFound::Waited,
        _ => return Err(nonsense("a settlement that found something else")),
    };
    let given = given.chunks(NUMBER_BYTES).map(whole);
    let given = given.map(|units| Some(units).filter(|units| *units != hold::AS_CHARGED));
    let decision = decision.of_hold(found, given);
    Ok(match request.action() {
        Action::Renew { id, lasts } if found == HoldFound::Live => {
            decision.with_hold(Hold { id, lasts })
        }
        _ => decision,
    })
}

/// The receipt of a reservation: the packed states before and after.
fn receipt(limit: &Limit, request: &Request<'_>, before: &[Value], after: &[Value]) -> Receipt {
    let parts = limit.parts().iter().enumerate().map(|(part, name)| {
        let (before, after) = (before.get(part).and_then(bytes), after.get(part).and_then(bytes));
        let change = after
            .filter(|after| before != Some(after))
            .map(|after| Change { before: before.map(<[u8]>::to_vec), after: after.to_vec() });
        // A value that was rewritten unchanged has nothing to give back.
        PartReceipt { limit: name.clone(), subject: request.subject(part).to_vec(), change }
    });
    Receipt::new(parts.collect())
}

/// The state of a log or ring whose entries have a separate key.
fn read_apart(
    member: &Member,
    head: Option<&Entry<'_>>,
    entries: &[u8],
) -> Result<Option<Held>, Error> {
    let Some(head) = head.and_then(Entry::numbers) else {
        return Ok(None);
    };
    let [newest, base, ..] = head.as_slice() else {
        return Err(nonsense("a head cut short"));
    };
    let mut numbers = vec![*newest, *base];
    numbers.extend(read_numbers(entries).unwrap_or_default());
    let state = member.policy().rule().read(&numbers);
    state.map(|state| Some(Held::State(state))).ok_or_else(|| nonsense("entries that no ring has"))
}

fn bytes(value: &Value) -> Option<&[u8]> {
    if let Value::Bytes(bytes) = value { Some(bytes) } else { None }
}

fn read_ask_again(items: &[Value]) -> Result<Reply, Error> {
    if let [Value::Int(policy), Value::Int(at)] = items
        && let (Ok(policy), Ok(at)) = (usize::try_from(*policy), u64::try_from(*at))
    {
        return Ok(Reply::AskAgain { policy, at });
    }
    Err(nonsense("an array of another shape"))
}

/// The reading of an exact log of one strategy, from its head right after an entry was added.
fn admitted_reading(rule: &Log, head: Option<&Entry<'_>>) -> Reading {
    let (judged_at, total) = match head.and_then(Entry::numbers).as_deref() {
        Some([newest, base, total, ..]) => (*newest, total.saturating_sub(*base)),
        _ => (0, 0),
    };
    let remaining = rule.limit().saturating_sub(total);
    Reading {
        judged_at,
        verdict: Verdict::Pass { wait: 0 },
        violated: 0,
        restamped: false,
        remaining_before: remaining,
        remaining,
        reset_after: rule.horizon(),
        total,
        current: 0,
        given_back: 0,
    }
}

/// What a script says of a log: the strategies that refuse, as bits, and seven numbers.
pub(crate) const READING: Format = Format(&[&[Item::Whole(4), Item::Numbers(7)]]);

/// "Never", in seven bytes and as a double.
pub(crate) const NEVER: u64 = 1 << 55;

/// Reads what a script says of a log whose newest time was `newest`.
fn read_reading(value: Option<&Value>, now: Now, newest: u64) -> Result<Reading, Error> {
    let Some(Value::Bytes(bytes)) = value else {
        return Err(nonsense("no reading of a log"));
    };
    let [a, b, c, d, numbers @ ..] = &bytes[..] else {
        return Err(nonsense("a reading cut short"));
    };
    let mut numbers = numbers.chunks_exact(NUMBER_BYTES).map(whole);
    let mut next = || numbers.next().ok_or_else(|| nonsense("a reading cut short"));
    let verdict = match next()? {
        0 => Verdict::Pass { wait: 0 },
        NEVER => Verdict::Refuse { retry: None },
        wait => Verdict::Refuse { retry: Some(wait) },
    };
    Ok(Reading {
        verdict,
        violated: u32::from_be_bytes([*a, *b, *c, *d]),
        restamped: now.is_exceeded_by(newest),
        remaining_before: next()?,
        remaining: next()?,
        reset_after: next()?,
        total: next()?,
        current: next()?,
        // Not from the newest time: the script may have found a log that it can't believe.
        judged_at: next()?,
        // A refund says so.
        given_back: next().unwrap_or(0),
    })
}

fn whole(number: &[u8]) -> u64 {
    number.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cold]
fn too_many_holds(limit: &Limit, request: &Request<'_>) -> Error {
    if request.holds().is_some() {
        return RequestError::too_many_holds(limit).into();
    }
    StoreError::new(
        StoreErrorKind::Overloaded,
        format!(
            "limit `{}` has {} decisions of one subject under way in several slots, the most there are: shorten the deadline, which is how long each counts as such; nothing was charged",
            limit.name(),
            Book::MOST
        ),
    )
    .into()
}

#[cold]
fn id_in_use(limit: &Limit, request: &Request<'_>) -> Error {
    match request.holds() {
        Some(hold) => RequestError::id_in_use(limit, hold.id).into(),
        None => nonsense("that an id is in use which is random"),
    }
}

/// Checks the range of a number: the kernels rely on it for every time and deficit.
fn exact(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|&number| number <= MAX_EXACT)
}

#[cold]
pub(crate) fn nonsense(what: &str) -> Error {
    StoreError::new(
        StoreErrorKind::Unexpected,
        format!(
            "the store answered {what}: is it a Redis or Valkey server, used by this program alone under its key prefix?"
        ),
    )
    .into()
}
