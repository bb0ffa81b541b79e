//! The frame of a script's input: what each one begins and ends with, and where that stands.
//!
//! | bytes | head |
//! | --- | --- |
//! | 4 | tag, which the reply repeats |
//! | 7 | the last µs, by the server's clock, in which anybody waits for the reply |
//! | 1 | the [`Lane`] that may be tried; with [`INJECTED`] added, the time to judge by is given; with [`ONCE`], an id |
//! | 1 | keys |
//! | 2 | how many calls, each with keys of its own, have this program |
//! | 2 | how many callers each of them stands for |
//! | 7 | `max_clock_back`, µs; or the time to judge by, µs since the epoch |
//!
//! Tag, last µs, calls and callers are filled in when it is sent.
//!
//! | bytes | end |
//! | --- | --- |
//! | 1 | operation, by its code |
//! | 1 | parts, each with a subject of its own |
//! | 1 | policies; with [`BANS`](crate::ban::BANS) added, bans stand before the end |
//! | 7 | the longest accepted wait of a reservation, or how long a ban by hand lasts, µs; or when the units were taken that are given back, µs since the epoch |

use sluicegate_core::MAX_EXACT;
use sluicegate_core::kernel::NUMBER_BYTES as NUMBER;

use crate::format::{Format, Item};
use crate::twin::Lane;

/// The head.
pub(crate) const HEAD: Format = Format(&[HEAD_ITEMS]);
/// The end.
pub(crate) const END: Format = Format(&[&[Item::Bytes(3), Item::Numbers(1)]]);

pub(crate) const HEAD_ITEMS: &[Item] =
    &[Item::Text(TAG_BYTES), Item::Numbers(1), Item::Bytes(2), COUNT, COUNT, Item::Numbers(1)];
const COUNT: Item = Item::Whole(2);
/// How many of the callers of one call passed.
pub(crate) const TIMES_ITEMS: &[Item] = &[COUNT];

/// Where things stand in the head.
pub(crate) const TAG_BYTES: usize = 4;
pub(crate) const LATE: usize = TAG_BYTES;
pub(crate) const LANE: usize = LATE + NUMBER;
pub(crate) const KEYS: usize = LANE + 1;
pub(crate) const CALLS: usize = KEYS + 1;
pub(crate) const TIMES: usize = CALLS + 2;
pub(crate) const BACK: usize = TIMES + 2;

/// Added to a lane: the time to judge by comes with the call.
pub(crate) const INJECTED: u8 = 16;

/// Added to a lane: the request has an id.
pub(crate) const ONCE: u8 = 32;

/// Gives a program the time to judge by, if that isn't the server's.
pub(crate) fn inject(at: Option<u64>, program: &mut [u8]) {
    if let Some(at) = at {
        program[LANE] += INJECTED;
        put(&mut program[BACK..], at);
    }
}

/// Makes a program go the general way, which every short one has to answer like.
pub fn without_lane(program: &mut [u8]) {
    program[LANE] -= program[LANE] % INJECTED;
}

/// A head that is not filled in: nobody's, and never too late.
pub(crate) fn head(bytes: &mut Vec<u8>, lane: Lane, keys: usize) {
    bytes.resize(HEAD.size(), 0);
    put(&mut bytes[LATE..], MAX_EXACT);
    bytes[LANE] = lane as u8;
    bytes[KEYS] = count(keys);
    bytes[CALLS + 1] = 1;
    bytes[TIMES + 1] = 1;
}

pub(crate) fn count(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

pub(crate) fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes()[1..]);
}

pub(crate) fn put(bytes: &mut [u8], number: u64) {
    bytes[..NUMBER].copy_from_slice(&number.to_be_bytes()[1..]);
}
