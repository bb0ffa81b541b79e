//! Decodes the replies of a script's general path into a [`Frame`].

use bytes::Bytes;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{BanState, Book, Change, Decided, Found, Stored, step_decided};
use sluicegate_core::kernel::{NUMBER_BYTES, Now, Overflow, Reading, Verdict};
use sluicegate_core::record::{Entry, Record, read_numbers};
use sluicegate_core::{
    Decision, Error, HoldFound, Limit, MAX_EXACT, Member, Operation, Request, RequestError,
    StoreError, StoreErrorKind, Warnings,
};
use smallvec::SmallVec;

use crate::format::{Format, Item};
use crate::hold::{self, GIVEN};
use crate::line;
use crate::program::{is_apart, is_read_there, kind_of};
use crate::resp::Value;
use crate::unexpected::nonsense;

// The verdicts of a script.
pub(crate) const ALLOWED: i64 = 1;
pub(crate) const DENIED: i64 = 0;
/// A state can't hold the cost.
pub(crate) const OVERFLOW: i64 = -1;
/// The boundaries of a calendar policy don't contain the evaluation time.
pub(crate) const ASK_AGAIN: i64 = -2;
/// The subject has the maximum number of holds.
pub(crate) const FULL: i64 = -3;
/// The id of the hold belongs to another hold.
pub(crate) const IN_USE: i64 = -4;

/// The request is a repeat of an allowed one: the earlier decision follows.
pub(crate) const REPEATED: i64 = 2;
/// The id of the request belongs to a different request.
pub(crate) const ASKS_OTHERWISE: i64 = -5;
/// The subject has the maximum number of request ids.
pub(crate) const FULL_OF_IDS: i64 = -6;

/// The script's reading of a log: the denying tiers, as bits, and seven numbers.
pub(crate) const READING: Format = Format(&[&[Item::Whole(4), Item::Numbers(7)]]);

/// "Never", in seven bytes and as a double.
pub(crate) const NEVER: u64 = 1 << 55;

/// A parsed reply.
#[derive(Debug)]
pub(super) enum Spoken {
    /// A decision.
    Decided(Box<Frame>),
    /// The decision on the earlier request with this id.
    Repeated(Bytes),
    /// The boundaries of a calendar policy don't contain the evaluation time.
    AskAgain { policy: usize, at: u64 },
}

/// A decision of a script.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The evaluation time, in µs since the epoch.
    micros: u64,
    /// Whether the script could not read a state.
    has_discarded: bool,
    /// The states that the script found for each part.
    states: SmallVec<[Option<Bytes>; 1]>,
    /// The readings of policies whose states stay in the server, one after the other.
    readings: Vec<Option<Bytes>>,
    /// The outcomes of the effects. Bans are among the states.
    decided: Decided,
}

impl Spoken {
    /// Parses an array. It has the verdict, the time, whether a state could not be read, the states of each
    /// part, and the readings. At its end are the outcomes of the request's effects.
    pub(super) fn of(limit: &Limit, request: &Request<'_>, items: &[Value]) -> Result<Self, Error> {
        let [Value::Int(verdict), Value::Int(now), Value::Int(noted), rest @ ..] = items else {
            return Err(nonsense("an array of another shape"));
        };
        match *verdict {
            REPEATED => {
                return Ok(Self::Repeated(rest.first().and_then(bytes).unwrap_or_default()));
            }
            ASKS_OTHERWISE => return Err(RequestError::asks_something_else(limit).into()),
            FULL_OF_IDS => return Err(RequestError::too_many_ids(limit).into()),
            _ => {}
        }
        let Some((states, rest)) = rest.split_at_checked(limit.parts().len()) else {
            return Err(nonsense("the states of too few limits"));
        };
        let micros = exact(*now).ok_or_else(|| nonsense("a time that no clock shows"))?;
        match *verdict {
            OVERFLOW => return Err(Overflow.into()),
            ASK_AGAIN => return read_ask_again(rest),
            FULL => return Err(too_many_holds(limit, request)),
            IN_USE => return Err(id_in_use(limit, request)),
            _ => {}
        }
        let states: SmallVec<[Option<Bytes>; 1]> = states.iter().map(bytes).collect();
        let decided = Decided { allowed: *verdict == ALLOWED, ..Decided::default() };
        let (decided, readings) = read_effects(limit, request, decided, &states, rest)?;
        let readings = readings.iter().map(bytes).collect();
        let has_discarded = *noted != 0;
        let frame = Frame { micros, has_discarded, states, readings, decided };
        Ok(Self::Decided(Box::new(frame)))
    }
}

impl Frame {
    /// Parses a brief reply. That to a hold has the states before, and whether anything is held. That to a
    /// settlement has the record found, the units given back, and the states after. Permits have a reading
    /// instead of states.
    pub(super) fn brief(
        limit: &Limit,
        request: &Request<'_>,
        micros: u64,
        allowed: bool,
        said: &Bytes,
    ) -> Result<Self, Error> {
        let mut decided = Decided { allowed, ..Decided::default() };
        let mut states = said.clone();
        if request.holds().is_some() {
            decided.holds = allowed;
        } else if let Some((found, given)) = said.get(..GIVEN.size()).and_then(<[u8]>::split_first)
        {
            states = said.slice(GIVEN.size()..);
            decided.found = Some(read_found((*found).into(), given)?);
        } else {
            return Err(nonsense("a settlement that doesn't say what it found"));
        }
        if limit.parts().len() > 1 {
            return Err(nonsense("the states of too few limits"));
        }
        let states = Some(states).filter(|states| !states.is_empty());
        let (states, readings) =
            if limit.has_permits() { (None, vec![states]) } else { (states, Vec::new()) };
        let states = SmallVec::from([states]);
        Ok(Self { micros, has_discarded: false, states, readings, decided })
    }

    /// Parses the recorded words of the reply to an allowed request. Returns `None` if there are too few.
    pub(super) fn kept(
        limit: &Limit,
        micros: u64,
        has_discarded: bool,
        mut words: Vec<Option<Bytes>>,
        holds: bool,
    ) -> Option<Self> {
        let parts = limit.parts().len();
        let readings = if words.len() < parts { return None } else { words.split_off(parts) };
        let decided = Decided { allowed: true, holds, ..Decided::default() };
        Some(Self { micros, has_discarded, states: words.into(), readings, decided })
    }

    /// Returns the decision: the kernels' decision on the states, with the outcomes of the effects.
    pub(super) fn decide(
        self,
        limit: &Limit,
        request: &Request<'_>,
        max_clock_back: Option<u64>,
    ) -> Result<Decision, Error> {
        let Self { micros, has_discarded, states, readings, mut decided } = self;
        let now = Now { micros, max_clock_back };
        let records =
            states.iter().map(|states| Record::decode(states.as_deref().unwrap_or_default()));
        let records: SmallVec<[Record<'_>; 1]> = records.collect();
        let mut discarded = has_discarded || records.iter().any(Record::is_torn);
        let mut readings = readings.iter().map(Option::as_deref);
        let mut held = Vec::with_capacity(limit.members().len());
        for member in limit.members() {
            let rule = member.policy().rule();
            let entry = records[member.part()].entry(member.identity(), kind_of(rule));
            held.push(match request.operation() {
                // The state was removed.
                Operation::Reset if is_read_there(rule) => None,
                Operation::Slices if is_apart(rule) => {
                    read_apart(member, entry, readings.next().flatten().unwrap_or_default())?
                }
                _ if is_read_there(rule) => {
                    // Units in flight are not restamped.
                    let entry = entry.filter(|_| is_apart(rule));
                    let newest = entry.and_then(Entry::numbers).map_or(0, |numbers| numbers[0]);
                    Some(Stored::Reading(read_reading(readings.next().flatten(), now, newest)?))
                }
                _ => {
                    let (state, is_unreadable) = records[member.part()].held(member);
                    discarded |= is_unreadable;
                    state
                }
            });
        }
        decided.bans = bans(limit, &records, &mut discarded);
        if request.changes_pauses() {
            decided.pauses = records.iter().map(|record| record.pauses().0).collect();
        }
        let decision = step_decided(limit, request, now, &mut held, decided)?;
        let mut decision = decision.ok_or_else(|| nonsense("another verdict than the kernels'"))?;
        decision.set_warnings(Warnings { discarded, ..decision.warnings() });
        Ok(decision)
    }
}

/// Parses the outcomes of the request's effects from the end of a reply, and returns the remaining readings.
fn read_effects<'v>(
    limit: &Limit,
    request: &Request<'_>,
    mut decided: Decided,
    before: &[Option<Bytes>],
    mut rest: &'v [Value],
) -> Result<(Decided, &'v [Value]), Error> {
    if request.is_in_line(limit) && decided.allowed {
        let [others @ .., Value::Bytes(turn), Value::Int(kept)] = rest else {
            return Err(nonsense("a reservation without the outcome for its queue"));
        };
        if !turn.is_empty() {
            let turn = line::read_place(turn);
            decided.turn = Some(turn.ok_or_else(|| nonsense("a turn that makes no sense"))?);
        }
        (decided.has_place, rest) = (*kept == 1, others);
    }
    // Only a reservation can be given back.
    if request.wants_receipt() && request.operation().within().is_some() && decided.allowed {
        let after = rest.get(rest.len().saturating_sub(before.len())..).unwrap_or_default();
        // A reservation that took over a turn has changed no states to put back.
        let after = if decided.turn.is_some() { &[] } else { after };
        let changes = before.iter().enumerate().map(|(part, before)| {
            let after = after.get(part).and_then(bytes);
            Change::of(before.as_deref().map(<[u8]>::to_vec), after.map(Vec::from))
        });
        decided.changes = Some(changes.collect());
    }
    match (request.operation(), request.holds(), request.ticket(), rest) {
        (Operation::Reset, _, _, [.., Value::Int(forgotten)]) => {
            decided.forgotten = Some(*forgotten > 0);
        }
        (Operation::Reset, ..) => {
            return Err(nonsense("a reset that doesn't say what it found"));
        }
        (_, Some(_), Some(_), [.., Value::Int(kept), Value::Bytes(queued)]) => {
            decided.holds = *kept == 1;
            match queued.split_first() {
                Some((&hold::NOT_QUEUED, _)) => {}
                Some((&hold::QUEUE_FULL, _)) => decided.is_queue_full = true,
                Some((&hold::IN_QUEUE, ahead)) => decided.waits_behind = Some(whole(ahead)),
                _ => return Err(nonsense("a ticket of another sort")),
            }
        }
        (_, Some(_), None, [.., Value::Int(kept @ (0 | 1))]) => decided.holds = *kept == 1,
        (_, Some(_), ..) => {
            return Err(nonsense("a decision that doesn't say whether it holds anything"));
        }
        (Operation::Settle { .. } | Operation::Renew { .. }, _, _, rest) => {
            let [.., Value::Int(found), Value::Bytes(given)] = rest else {
                return Err(nonsense("a settlement that doesn't say what it found"));
            };
            decided.found = Some(read_found(*found, given)?);
        }
        _ => {}
    }
    Ok((decided, rest))
}

/// Parses what a settlement found, and the units that each policy gave back.
fn read_found(found: i64, given: &[u8]) -> Result<Found, Error> {
    let hold = match found {
        hold::UNKNOWN => HoldFound::Unknown,
        hold::SETTLED => HoldFound::Settled,
        hold::LIVE => HoldFound::Live,
        hold::WAITED => HoldFound::Waited,
        _ => return Err(nonsense("a settlement that found something else")),
    };
    let given = given.chunks(NUMBER_BYTES).map(whole);
    let given = given.map(|units| Some(units).filter(|units| *units != hold::AS_CHARGED));
    Ok(Found { hold, given: given.collect() })
}

/// Returns the denials and bans of each part's subject; none if the limit has no bans.
fn bans(
    limit: &Limit,
    records: &[Record<'_>],
    discarded: &mut bool,
) -> SmallVec<[Option<BanState>; 1]> {
    let ban = |(part, record): (usize, &Record<'_>)| {
        let (ban, is_unreadable) = record.ban();
        let has_ban = limit.ban(part).is_some();
        *discarded |= is_unreadable && has_ban;
        ban.filter(|_| has_ban)
    };
    records.iter().filter(|_| limit.has_bans()).enumerate().map(ban).collect()
}

/// Parses the state of a log or ring whose entries have a separate key.
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

fn bytes(value: &Value) -> Option<Bytes> {
    if let Value::Bytes(bytes) = value { Some(bytes.clone()) } else { None }
}

fn read_ask_again(items: &[Value]) -> Result<Spoken, Error> {
    if let [Value::Int(policy), Value::Int(at)] = items
        && let (Ok(policy), Ok(at)) = (usize::try_from(*policy), u64::try_from(*at))
    {
        return Ok(Spoken::AskAgain { policy, at });
    }
    Err(nonsense("an array of another shape"))
}

/// Parses the script's reading of a log whose newest time was `newest`.
fn read_reading(bytes: Option<&[u8]>, now: Now, newest: u64) -> Result<Reading, Error> {
    let Some(bytes) = bytes else {
        return Err(nonsense("no reading of a log"));
    };
    let [a, b, c, d, numbers @ ..] = bytes else {
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
        used: next()?,
        current: next()?,
        // Not computed from `newest`, because the script may have found an invalid log.
        judged_at: next()?,
        // The reading of a refund has one more number.
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
            "limit `{}` has {} decisions of one subject under way in several slots, the maximum: shorten the deadline that bounds each; nothing was charged",
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
