//! Requests with an id: what makes a call answer a repeat, and what is known of one that was allowed.
//!
//! A program with an id has these bytes before its hold, if it has one, or else before its end; and two
//! more keys before those of holds: what is known by the id, and how many ids the subject has
//! (`lua/once.lua`).
//!
//! | bytes | id |
//! | --- | --- |
//! | 8 | what is asked |
//! | 7 | for how many µs a repeat is known |
//! | 16 | the id |
//! | 16 | the id of the hold that an allowed request leaves; zeros for none |

use sluicegate_core::kernel::HEAD_BYTES;
use sluicegate_core::{
    Asked, Costs, Decision, Error, Hold, HoldId, Limit, MAX_EXACT, Once, Operation, Request,
    RequestId, Span, Timestamp,
};
use smallvec::SmallVec;

use crate::format::{Format, Item};
use crate::program::{END, KEYS, LANE, ONCE as ONCE_LANE, put};
use crate::reply::{ALLOWED, Reply, nonsense, read_states, read_verdict};
use crate::resp::Value;

/// What a program has of an id.
pub(crate) const ONCE: Format = Format(&[&[
    Item::Text(Asked::BYTES),
    Item::Numbers(1),
    Item::Text(RequestId::BYTES),
    Item::Text(HoldId::BYTES),
]]);
/// The same of a request that leaves no hold.
pub(crate) const ALONE: Format =
    Format(&[ASKED_AS_NUMBERS, &[Item::Numbers(1), Item::Text(RequestId::BYTES)]]);
const ASKED_AS_NUMBERS: &[Item] = &[Item::Whole(Asked::BYTES / 2), Item::Whole(Asked::BYTES / 2)];

/// How the record of an id begins: what was asked, until when a repeat is known, the time of judgement,
/// the units granted, notes, whether it is brief, and the id of its hold.
pub(crate) const HEAD: Format = Format(&[&[
    Item::Text(Asked::BYTES),
    Item::Numbers(3),
    Item::Bytes(2),
    Item::Text(HoldId::BYTES),
]]);

/// The kind of the entry of the ids that stand inline,
pub(crate) const KNOWN_KIND: u8 = 0x89;
/// and how many there are at most.
pub(crate) const KNOWN_MOST: usize = 8;

/// How that entry begins: its head, its length, until when it stays, and until when there are ids outside; then
/// what all its ids have in common: the head and the unit of the bucket, and for how long they are known.
pub(crate) const KNOWN: Format = Format(&[COMMON]);
const COMMON: &[Item] = &[
    Item::Whole(HEAD_BYTES),
    Item::Whole(2),
    Item::Numbers(2),
    Item::Whole(HEAD_BYTES),
    Item::Numbers(2),
];
/// Each id, the newest first: the time of judgement and the deficit that was left, what was asked, and the id.
pub(crate) const KNOWN_ID: Format = Format(&[ROW]);
const ROW: &[Item] = &[Item::Numbers(2), Item::Text(Asked::BYTES), Item::Text(RequestId::BYTES)];
/// The entry as far as the newest time of judgement goes.
pub(crate) const KNOWN_NEWEST: Format = Format(&[COMMON, &[Item::Numbers(1)]]);
/// The same behind a bucket.
pub(crate) const KNOWN_BEHIND: Format = Format(&[BUCKET, COMMON, &[Item::Numbers(1)]]);
const BUCKET: &[Item] = &[Item::Whole(HEAD_BYTES), Item::Numbers(3)];
/// A whole value: the bucket, the entry, the newest id, and the others.
pub(crate) const REMEMBERED: Format = Format(&[
    BUCKET,
    COMMON,
    &[Item::Numbers(2)],
    ASKED_AS_NUMBERS,
    &[Item::Text(RequestId::BYTES), Item::Rest],
]);

/// The length of what is not there.
pub(crate) const NO_WORD: u32 = u32::MAX;

/// A group of ids: when the last of them ends, and how many they are.
pub(crate) const IDS: Format = Format(&[&[Item::Numbers(1), Item::Whole(4)]]);
/// How many groups there are at most.
pub(crate) const GROUPS: usize = 32;
/// For how long a group can live.
pub(crate) const LONGEST: Span = match Span::from_micros(Once::MAX_LASTS.as_micros() / 4 * 5) {
    Ok(longest) => longest,
    Err(_) => Span::MAX,
};

/// Makes a program answer a repeat, if the request has an id.
pub(crate) fn with_id(limit: &Limit, request: &Request<'_>, program: &mut Vec<u8>) {
    let Some(once) = request.asks_once() else { return };
    let mut bytes = [0; ONCE.size()];
    let (asked, rest) = bytes.split_at_mut(Asked::BYTES);
    asked.copy_from_slice(&Asked::of(limit, request).to_bytes());
    put(rest, once.lasts.as_micros());
    let (rest, hold_id) = rest.split_at_mut(rest.len() - HoldId::BYTES);
    if let Some(hold) = request.holds() {
        hold_id.copy_from_slice(&hold.id.to_bytes());
    }
    let at = rest.len() - RequestId::BYTES;
    rest[at..].copy_from_slice(&once.id.to_bytes());
    let end = program.len() - END.size();
    program[KEYS] += 2;
    program[LANE] += ONCE_LANE;
    program.splice(end..end, bytes);
}

/// The decision on a request that was asked and allowed before, from what is known of it. It is made of
/// what was replied then; where the policies have other numbers now, by which it might not have been
/// allowed, as if it had been charged by force.
pub(crate) fn read(
    limit: &Limit,
    request: &Request<'_>,
    max_clock_back: Option<u64>,
    record: &[u8],
) -> Result<Decision, Error> {
    let cut_short = || nonsense("a record cut short");
    let (head, body) = record.split_at_checked(HEAD.size()).ok_or_else(cut_short)?;
    let (numbers, rest) = head[Asked::BYTES..].split_at(3 * 7);
    let mut numbers = numbers.chunks_exact(7).map(whole);
    let (_until, judged_at, granted) = match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(until), Some(at), Some(granted)) if at <= MAX_EXACT => (until, at, granted),
        _ => return Err(cut_short()),
    };
    let (&[notes, brief], id) = rest.split_first_chunk().ok_or_else(cut_short)?;
    let id = HoldId::from_bytes(id.try_into().map_err(|_| cut_short())?);
    let hold = request.holds().map(|hold| Hold { id, ..*hold });
    let request = request.without_once();
    let request = hold.as_ref().map_or(request, |hold| request.hold(hold));

    let taken_at = Timestamp::from_micros_clamped(judged_at);
    if brief == 1 {
        return match read_states(limit, &request, body) {
            Ok(decision) => Ok(decision.again()),
            // No policy can read what was replied any more.
            Err(_) => Ok(Decision::of_known(limit, &request, taken_at, None)),
        };
    }
    let items = items(judged_at, notes, body, hold.is_some()).ok_or_else(cut_short)?;
    let judge = |request: &Request<'_>| match read_verdict(limit, request, max_clock_back, &items)?
    {
        Reply::Decided(decision) => Ok(decision),
        Reply::AskAgain { .. } => Err(nonsense("a record of another shape")),
    };
    // Of what was taken up to a number; else there is none.
    let granted = Some(granted).filter(|granted| (1..=MAX_EXACT).contains(granted));
    let is_same = |decision: &Decision| granted.is_none_or(|granted| granted == decision.granted());
    match judge(&request) {
        Ok(decision) if decision.is_allowed() && is_same(&decision) => Ok(decision.again()),
        _ => {
            let most = granted.unwrap_or(MAX_EXACT);
            let costs: SmallVec<[u64; 4]> = (0..limit.members().len())
                .map(|index| request.cost_of(limit, index).min(most))
                .collect();
            let charge = request.operation(Operation::Charge).costs(Costs::Each(&costs));
            match judge(&charge) {
                Ok(decision) => Ok(decision.again()),
                Err(_) => {
                    let decision = Decision::of_known(limit, &request, taken_at, granted);
                    let hold = hold.filter(|_| items.last() == Some(&Value::Int(1)));
                    Ok(hold.map_or(decision.clone(), |hold| decision.with_hold(hold)))
                }
            }
        }
    }
}

/// What was replied, but for its stamp.
fn items(judged_at: u64, notes: u8, mut body: &[u8], holds: bool) -> Option<Vec<Value>> {
    let judged_at = i64::try_from(judged_at).ok()?;
    let mut items = vec![Value::Int(ALLOWED), Value::Int(judged_at), Value::Int(notes.into())];
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk()?;
        let length = u32::from_be_bytes(*length);
        let (word, rest) = match length {
            NO_WORD => (Value::Nil, rest),
            length => {
                let (word, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Value::Bytes(word.to_vec().into()), rest)
            }
        };
        items.push(word);
        body = rest;
    }
    if holds {
        // Whether it holds anything, which was a number.
        let Value::Bytes(kept) = items.pop()? else { return None };
        items.push(Value::Int(i64::from(&kept[..] == b"1")));
    }
    Some(items)
}

fn whole(number: &[u8]) -> u64 {
    number.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
