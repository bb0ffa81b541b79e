//! The frame of a script's input: the beginning and the end of each program, and their positions.
//!
//! | bytes | head |
//! | --- | --- |
//! | 4 | tag, which the reply repeats |
//! | 7 | the last µs, by the server's clock, in which a caller waits for the reply |
//! | 1 | the [`Lane`] to try; plus [`INJECTED`] if the time to decide by is given; plus [`ONCE`] if there is an id |
//! | 1 | keys |
//! | 2 | number of calls with this program, each with its own keys |
//! | 2 | number of callers of each call |
//! | 7 | `max_clock_back`, µs; or the time to decide by, µs since the epoch |
//!
//! Tag, last µs, calls and callers are filled in when the program is sent.
//!
//! | bytes | end |
//! | --- | --- |
//! | 1 | operation, by its code |
//! | 1 | parts, each with its own subject |
//! | 1 | policies; with [`BANS`](crate::ban::BANS) added, bans come before the end |
//! | 7 | the longest accepted wait of a reservation, or the duration of a manual ban, µs. To give back: the time when the units were taken, µs since the epoch |

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
/// Number of callers of a call that passed.
pub(crate) const TIMES_ITEMS: &[Item] = &[COUNT];

/// Positions in the head.
pub(crate) const TAG_BYTES: usize = 4;
pub(crate) const LATE: usize = TAG_BYTES;
pub(crate) const LANE: usize = LATE + NUMBER;
pub(crate) const KEYS: usize = LANE + 1;
pub(crate) const CALLS: usize = KEYS + 1;
pub(crate) const TIMES: usize = CALLS + 2;
pub(crate) const BACK: usize = TIMES + 2;

/// Added to a path's code: the time to decide by comes with the call.
pub(crate) const INJECTED: u8 = 16;

/// Added to a path's code: the request has an id.
pub(crate) const ONCE: u8 = 32;

/// Sets the time to decide by, unless it is the server's.
pub(crate) fn inject(at: Option<u64>, program: &mut [u8]) {
    if let Some(at) = at {
        program[LANE] += INJECTED;
        put(&mut program[BACK..], at);
    }
}

/// Makes a program use the general path. Every fast path must give the same answers.
pub fn without_lane(program: &mut [u8]) {
    program[LANE] -= program[LANE] % INJECTED;
}

/// Appends a head that is not filled in: it has no caller, and is never too late.
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

/// Appends a word after its length. A value takes at most 512 MB.
pub(crate) fn push_word(bytes: &mut Vec<u8>, word: &[u8]) {
    let length = u32::try_from(word.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(word);
}

pub(crate) fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes()[1..]);
}

pub(crate) fn put(bytes: &mut [u8], number: u64) {
    bytes[..NUMBER].copy_from_slice(&number.to_be_bytes()[1..]);
}
