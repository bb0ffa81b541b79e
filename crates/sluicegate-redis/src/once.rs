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

use sluicegate_core::for_stores::Asked;
use sluicegate_core::kernel::HEAD_BYTES;
use sluicegate_core::{HoldId, Idempotency, Limit, Request, RequestId, Span};

use crate::format::{Format, Item};
use crate::program_frame::{END, KEYS, LANE, ONCE as ONCE_LANE, put};

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
/// the units granted, warnings, whether it is brief, and the id of its hold.
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
pub(crate) const LONGEST: Span = match Span::from_micros(Idempotency::MAX_LASTS.as_micros() / 4 * 5)
{
    Ok(longest) => longest,
    Err(_) => Span::MAX,
};

/// Makes a program answer a repeat, if the request has an id.
pub(crate) fn with_id(limit: &Limit, request: &Request<'_>, program: &mut Vec<u8>) {
    let Some(once) = request.idempotency() else { return };
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
