//! Bans in programs.
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

use sluicegate_core::kernel::NUMBER_BYTES;
use sluicegate_core::{Ban, Limit, Request, Span};

use crate::format::{Format, Item};
use crate::program_frame::put;

/// A flag added to the number of policies, which is at most 64: the parts' bans follow.
pub(crate) const BANS: u8 = 128;

/// The ban of a part.
pub(crate) const BAN: Format = Format(&[&[Item::Bytes(1), Item::Numbers(4)]]);

// The flags.
pub(crate) const DOUBLING: u8 = 1;
/// The request needs units of the part, so its ban denies it.
pub(crate) const ASKED: u8 = 2;

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
    let [period, lasts, up_to] =
        [after.period(), ban.lasts(), ban.up_to()].map(|time| Span::from(time).as_micros());
    let numbers = [after.count(), period, lasts, up_to];
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
