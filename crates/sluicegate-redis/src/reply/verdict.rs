//! Decodes what the general path of a script replies.

use sluicegate_core::kernel::{NUMBER_BYTES, Now, Overflow, Reading, Verdict};
use sluicegate_core::record::{Entry, Record, read_numbers};
use sluicegate_core::{
    Action, Book, Change, Costs, Decision, Error, Hold, HoldFound, Limit, MAX_EXACT, Member, Notes,
    Operation, PartReceipt, Place, PlaceName, Queued, Receipt, Request, RequestError, StoreError,
    StoreErrorKind, Stored, step_again_in_line,
};
use smallvec::SmallVec;

use super::Reply;
use crate::format::{Format, Item};
use crate::hold;
use crate::line;
use crate::program::{is_apart, is_read_there, kind_of};
use crate::resp::Value;
use crate::unexpected::nonsense;

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

/// What a script says of a log: the strategies that refuse, as bits, and seven numbers.
pub(crate) const READING: Format = Format(&[&[Item::Whole(4), Item::Numbers(7)]]);

/// "Never", in seven bytes and as a double.
pub(crate) const NEVER: u64 = 1 << 55;

/// The script's general path: verdict, time, the states it saw, and readings of logs.
pub(super) fn read_verdict(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    items: &[Value],
) -> Result<Reply, Error> {
    let [Value::Int(verdict), Value::Int(now), Value::Int(noted), rest @ ..] = items else {
        return Err(nonsense("an array of another shape"));
    };
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
                Some(Stored::Reading(read_reading(further.next(), now, newest)?))
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
) -> Result<Option<Stored>, Error> {
    let Some(head) = head.and_then(Entry::numbers) else {
        return Ok(None);
    };
    let [newest, base, ..] = head.as_slice() else {
        return Err(nonsense("a head cut short"));
    };
    let mut numbers = vec![*newest, *base];
    numbers.extend(read_numbers(entries).unwrap_or_default());
    let state = member.policy().rule().read(&numbers);
    state
        .map(|state| Some(Stored::State(state)))
        .ok_or_else(|| nonsense("entries that no ring has"))
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
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

pub(super) fn whole(number: &[u8]) -> u64 {
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
