//! Records that stand in the value of a subject, so that few requests need no keys of their own
//! (`lua/inline.lua`).

use sluicegate_core::kernel::{HEAD_BYTES, ID_BYTES};
use sluicegate_core::{Asked, HoldId};

use crate::format::{Format, Item};
use crate::hold::BUCKET_LEFT;

/// The kind of the entry that has them.
pub(crate) const KIND: u8 = 0x88;
/// How many there are at most: what is usual for one user, and a value of a kilobyte.
pub(crate) const MOST: usize = 8;

// The sorts of records: what is held, and a request with an id.
pub(crate) const HOLD: u8 = 1;
pub(crate) const ID: u8 = 2;

/// How the entry begins: its head, its length, until when it stays, which is no sooner than the last record ends,
/// when the first one ends at the earliest, and how many there are.
pub(crate) const ENTRY: Format = Format(&[BEGINNING]);
const BEGINNING: &[Item] =
    &[Item::Whole(HEAD_BYTES), Item::Whole(2), Item::Numbers(2), Item::Bytes(1)];

/// How each record begins: its id, its sort, until when it lives, and the length of what follows.
pub(crate) const RECORD: Format = Format(&[RECORD_ID, RECORD_REST]);
pub(crate) const AFTER_ID: Format = Format(&[RECORD_REST]);
const RECORD_ID: &[Item] = &[Item::Text(HoldId::BYTES)];
const RECORD_REST: &[Item] = &[Item::Bytes(1), Item::Numbers(1), Item::Whole(2)];

/// What follows of a request with an id: what was asked, and the time of judgement; then the states as written.
pub(crate) const ONCE: Format = Format(&[REQUEST]);
const REQUEST: &[Item] = &[Item::Text(Asked::BYTES), Item::Numbers(1)];

// Whole values, written in one go, which makes the fewest strings.

/// A bucket of which units are held, its slots, the entry, the record of what has come, the state that was found,
/// and the other records.
pub(crate) const GRANTED: Format = Format(&[
    &[Item::Whole(HEAD_BYTES), Item::Whole(2), Item::Numbers(5), Item::Rest],
    BEGINNING,
    RECORD_ID,
    RECORD_REST,
    BUCKET_LEFT,
    &[Item::Rest, Item::Rest],
]);
/// The states, a tally, the entry, the other records, and that of what is settled.
pub(crate) const SETTLED: Format = Format(&[
    &[Item::Rest, Item::Rest],
    BEGINNING,
    &[Item::Rest],
    RECORD_ID,
    RECORD_REST,
    GIVEN_BACK,
]);
const GIVEN_BACK: &[Item] = &[Item::Whole(ID_BYTES), Item::Whole(2), Item::Numbers(1)];
/// How long what follows is of one policy that was settled.
pub(crate) const SETTLED_LENGTH: usize = Format(&[GIVEN_BACK]).size();
/// The state, the entry, the record of a request with an id, the state again, and the other records.
pub(crate) const REMEMBERED: Format =
    Format(&[&[Item::Rest], BEGINNING, RECORD_ID, RECORD_REST, REQUEST, &[Item::Rest, Item::Rest]]);
