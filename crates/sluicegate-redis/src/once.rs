//! Requests with an id: a call that answers a repeat, and the record of an allowed one.
//!
//! A program with an id has these bytes before its hold, or else before its end. Its call has two more keys
//! before those of holds: the id's record, and the number of the subject's ids (`lua/once.lua`).
//!
//! | bytes | id |
//! | --- | --- |
//! | 8 | digest of the request |
//! | 7 | time for which a repeat is recognized, µs |
//! | 16 | the id |
//! | 16 | the id of the hold that an allowed request leaves; zeros for none |

use sluicegate_core::for_stores::Asked;
use sluicegate_core::kernel::HEAD_BYTES;
use sluicegate_core::{HoldId, Idempotency, Limit, Request, RequestId, Span};

use crate::format::{Format, Item};
use crate::program_frame::{END, KEYS, LANE, ONCE as ONCE_LANE, put};

/// The bytes of an id in a program.
pub(crate) const ONCE: Format = Format(&[&[
    Item::Text(Asked::BYTES),
    Item::Numbers(1),
    Item::Text(RequestId::BYTES),
    Item::Text(HoldId::BYTES),
]]);
/// The bytes of an id without a hold.
pub(crate) const ALONE: Format =
    Format(&[ASKED_AS_NUMBERS, &[Item::Numbers(1), Item::Text(RequestId::BYTES)]]);
const ASKED_AS_NUMBERS: &[Item] = &[Item::Whole(Asked::BYTES / 2), Item::Whole(Asked::BYTES / 2)];

/// The beginning of an id's record. It has the request's digest, the end of its validity, the evaluation time
/// and the granted units. Then follow warnings, whether it is brief, and the id of its hold.
pub(crate) const HEAD: Format = Format(&[&[
    Item::Text(Asked::BYTES),
    Item::Numbers(3),
    Item::Bytes(2),
    Item::Text(HoldId::BYTES),
]]);

/// The kind of the entry of inline ids.
pub(crate) const KNOWN_KIND: u8 = 0x89;
/// Maximum number of inline ids.
pub(crate) const KNOWN_MOST: usize = 8;

/// The beginning of that entry: its head, its length, its expiry, and the expiry of ids with separate keys.
/// Then follows the part that its ids share: the head and the unit of the bucket, and their lifetime.
pub(crate) const KNOWN: Format = Format(&[COMMON]);
const COMMON: &[Item] = &[
    Item::Whole(HEAD_BYTES),
    Item::Whole(2),
    Item::Numbers(2),
    Item::Whole(HEAD_BYTES),
    Item::Numbers(2),
];
/// One id, the newest first: the evaluation time, the remaining deficit, the request's digest, and the id.
pub(crate) const KNOWN_ID: Format = Format(&[ROW]);
const ROW: &[Item] = &[Item::Numbers(2), Item::Text(Asked::BYTES), Item::Text(RequestId::BYTES)];
/// The entry up to the newest evaluation time.
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

/// The length of a missing word.
pub(crate) const NO_WORD: u32 = u32::MAX;

/// A group of ids: its last expiry, and its size.
pub(crate) const IDS: Format = Format(&[&[Item::Numbers(1), Item::Whole(4)]]);
/// Maximum number of groups.
pub(crate) const GROUPS: usize = 32;
/// Longest lifetime of a group, in µs.
pub(crate) const LONGEST: u64 = Idempotency::MAX_LASTS.as_secs() * 1_000_000 / 4 * 5;

/// Makes a program answer a repeat, if the request has an id.
pub(crate) fn with_id(limit: &Limit, request: &Request<'_>, program: &mut Vec<u8>) {
    let Some(once) = request.idempotency() else { return };
    let mut bytes = [0; ONCE.size()];
    let (asked, rest) = bytes.split_at_mut(Asked::BYTES);
    asked.copy_from_slice(&Asked::of(limit, request).to_bytes());
    put(rest, Span::from(once.lasts).as_micros());
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
