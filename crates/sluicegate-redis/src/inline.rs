//! Inline records, which are part of a subject's value (`lua/inline_read.lua`). As long as a subject has few,
//! its requests need no further keys.

use sluicegate_core::HoldId;
use sluicegate_core::kernel::{HEAD_BYTES, ID_BYTES};

use crate::format::{Format, Item};

/// The kind of the entry of inline records.
pub(crate) const KIND: u8 = 0x88;
/// Maximum number of inline records: enough for a usual user, with a value of less than a kilobyte.
pub(crate) const MOST: usize = 8;

// Form of a record with the same entries as separate records.
pub(crate) const WITH_ENTRIES: u8 = 1;
/// Form of the record of a plain bucket's charge.
pub(crate) const GRANTED: u8 = 2;
/// Form of the record of one settled policy.
pub(crate) const SETTLED: u8 = 3;

/// The beginning of the entry: its head, its length, its expiry, the earliest end of a record, and the number
/// of records. The expiry isn't before the last record's end.
pub(crate) const ENTRY: Format = Format(&[BEGINNING]);
const BEGINNING: &[Item] =
    &[Item::Whole(HEAD_BYTES), Item::Whole(2), Item::Numbers(2), Item::Bytes(1)];

/// The beginning of each record: its id, its form, its expiry, and the length of the rest.
pub(crate) const RECORD: Format = Format(&[RECORD_ID, RECORD_REST]);
pub(crate) const AFTER_ID: Format = Format(&[RECORD_REST]);
const RECORD_ID: &[Item] = &[Item::Text(HoldId::BYTES)];
const RECORD_REST: &[Item] = &[Item::Bytes(1), Item::Numbers(1), Item::Whole(2)];

/// The rest of a bucket's record.
///
/// It has the head of the state, the units, their evaluation time, the bucket's unit and refill, and the tag
/// of the slot. Then follow the deficit after the charge, and the newest time and the deficit before it;
/// without a previous state there is no time.
pub(crate) const GRANT: Format = Format(&[UNITS]);
const UNITS: &[Item] = &[Item::Whole(HEAD_BYTES), Item::Numbers(8)];
/// The rest of one settled policy's record: the kind and identity, and the units given back.
pub(crate) const GIVEN: Format = Format(&[GIVEN_BACK]);
const GIVEN_BACK: &[Item] = &[Item::Whole(ID_BYTES), Item::Numbers(1)];

/// The entry, if its first record is of a bucket's charge.
pub(crate) const GRANTED_FIRST: Format =
    Format(&[BEGINNING, RECORD_ID, RECORD_REST, UNITS, &[Item::Rest]]);
/// The entry, if its first record is of one settled policy. The other records follow.
pub(crate) const SETTLED_FIRST: Format =
    Format(&[BEGINNING, RECORD_ID, RECORD_REST, GIVEN_BACK, &[Item::Rest]]);
