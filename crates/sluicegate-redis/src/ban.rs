//! Bans in programs, and in the replies to banned callers.
//!
//! A program of a limit with bans has [`BANS`] added to the number of its policies. It has these bytes for
//! each part before its id, its ticket, its hold, its queue position and its end (`lua/ban.lua`):
//!
//! | bytes | the ban of a part |
//! | --- | --- |
//! | 1 | flags |
//! | 7 | denials that ban; 0 without a ban |
//! | 7 | window of these denials, µs |
//! | 7 | duration of the first ban, µs |
//! | 7 | maximum duration, µs |

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Ban, Banned, Decision, Error, Limit, Request};

use crate::format::{Format, Item};
use crate::program_frame::put;
use crate::unexpected::nonsense;
use sluicegate_core::kernel::NUMBER_BYTES;
use sluicegate_core::record::read_numbers;

/// A flag added to the number of policies, which is at most 64: the parts' bans follow.
pub(crate) const BANS: u8 = 128;

/// The ban of a part.
pub(crate) const BAN: Format = Format(&[&[Item::Bytes(1), Item::Numbers(4)]]);

// The flags.
pub(crate) const DOUBLING: u8 = 1;
/// The request needs units of the part, so its ban denies it.
pub(crate) const ASKED: u8 = 2;

/// The brief reply of a ban: its part, whether any ban was restamped, and the rest of the ban in µs.
pub(crate) const BANNED: Format = Format(&[&[Item::Bytes(2), Item::Numbers(1)]]);

/// Appends the parts' bans.
pub(crate) fn write_bans(limit: &Limit, bytes: &mut Vec<u8>) {
    for part in 0..limit.parts().len() {
        let start = bytes.len();
        bytes.resize(start + BAN.size(), 0);
        if let Some(ban) = limit.ban(part) {
            write_ban(ban, &mut bytes[start..]);
        }
    }
}

fn write_ban(ban: &Ban, bytes: &mut [u8]) {
    bytes[0] = if ban.is_doubling() { DOUBLING } else { 0 };
    let after = ban.after();
    let numbers = [
        after.count(),
        after.period().as_micros(),
        ban.lasts().as_micros(),
        ban.up_to().as_micros(),
    ];
    for (place, number) in bytes[1..].chunks_mut(NUMBER_BYTES).zip(numbers) {
        put(place, number);
    }
}

/// Marks each part whose units the request needs.
pub(crate) fn write_asked(limit: &Limit, request: &Request<'_>, bytes: &mut [u8]) {
    for (index, member) in limit.members().iter().enumerate() {
        if request.cost_of(limit, index) > 0 {
            bytes[member.part() * BAN.size()] |= ASKED;
        }
    }
}

/// Returns the decision of a ban.
pub(crate) fn read_banned(limit: &Limit, said: &[u8]) -> Result<Decision, Error> {
    let Some((&[part, restamped], rest)) = said.split_first_chunk() else {
        return Err(nonsense("a ban cut short"));
    };
    let rest = read_numbers(rest).and_then(|numbers| numbers.first().copied());
    match (usize::from(part), rest) {
        (part, Some(rest)) if part < limit.parts().len() => {
            Ok(Decision::banned(limit, Banned::new(part, rest, false), restamped != 0))
        }
        _ => Err(nonsense("a ban that no limit has")),
    }
}
