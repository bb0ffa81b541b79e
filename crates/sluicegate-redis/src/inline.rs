//! Records that stand in the value of a subject, so that few requests need no keys of their own
//! (`lua/inline_read.lua`).

use sluicegate_core::HoldId;
use sluicegate_core::kernel::{HEAD_BYTES, ID_BYTES};

use crate::format::{Format, Item};

/// The kind of the entry that has them.
pub(crate) const KIND: u8 = 0x88;
/// How many there are at most: what is usual for one user, and a value of less than a kilobyte.
pub(crate) const MOST: usize = 8;

// The forms of records: with the entries that records outside have,
pub(crate) const WITH_ENTRIES: u8 = 1;
/// of what a plain bucket was charged,
pub(crate) const GRANTED: u8 = 2;
/// and of one policy that was settled.
pub(crate) const SETTLED: u8 = 3;

/// How the entry begins: its head, its length, until when it stays, which is no sooner than the last record ends,
/// when the first one ends at the earliest, and how many there are.
pub(crate) const ENTRY: Format = Format(&[BEGINNING]);
const BEGINNING: &[Item] =
    &[Item::Whole(HEAD_BYTES), Item::Whole(2), Item::Numbers(2), Item::Bytes(1)];

/// How each record begins: its id, its form, until when it lives, and the length of what follows.
pub(crate) const RECORD: Format = Format(&[RECORD_ID, RECORD_REST]);
pub(crate) const AFTER_ID: Format = Format(&[RECORD_REST]);
const RECORD_ID: &[Item] = &[Item::Text(HoldId::BYTES)];
const RECORD_REST: &[Item] = &[Item::Bytes(1), Item::Numbers(1), Item::Whole(2)];

/// What follows of what a bucket was charged: the head of its state; units, their time of judgement, the bucket's
/// unit and refill, and the tag of the slot; the deficit that was left at that time; and the newest time and the
/// deficit that were found, or no time for no state.
pub(crate) const GRANT: Format = Format(&[UNITS]);
const UNITS: &[Item] = &[Item::Whole(HEAD_BYTES), Item::Numbers(8)];
/// What follows of one policy that was settled: the kind and identity, and what was given back.
pub(crate) const GIVEN: Format = Format(&[GIVEN_BACK]);
const GIVEN_BACK: &[Item] = &[Item::Whole(ID_BYTES), Item::Numbers(1)];

/// The entry whose first record is of what a bucket was charged,
pub(crate) const GRANTED_FIRST: Format =
    Format(&[BEGINNING, RECORD_ID, RECORD_REST, UNITS, &[Item::Rest]]);
/// or of one policy that was settled; the other records follow.
pub(crate) const SETTLED_FIRST: Format =
    Format(&[BEGINNING, RECORD_ID, RECORD_REST, GIVEN_BACK, &[Item::Rest]]);
