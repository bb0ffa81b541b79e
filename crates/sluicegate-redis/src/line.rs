//! Lines: what makes a reservation take a turn and have a place, and a cancellation hand it on.
//!
//! A program that reserves in a line has these bytes before its end, or its [hold](crate::hold), and one more
//! key before those of that: the subject's line (`lua/reservations.lua`).
//!
//! | bytes | place |
//! | --- | --- |
//! | 1 | 1 if the reservation is to have a place |
//! | 16 | what that is called |

use sluicegate_core::HoldId;
use sluicegate_core::for_stores::{Identity, Place, PlaceName};
use sluicegate_core::kernel::{ID_BYTES, NUMBER_BYTES};
use sluicegate_core::record::read_numbers;

use crate::format::{Format, Item};
use crate::hold::{HELD, HOLD};
use crate::program_frame::{END, KEYS};

/// What a program has of a place.
pub(crate) const IN_PROGRAM: Format = Format(&[&[Item::Bytes(1), Item::Text(HoldId::BYTES)]]);

/// What a place is found by: its instant and id.
pub(crate) const NAME: Format = Format(&[NAME_ITEMS]);
const NAME_ITEMS: &[Item] = &[Item::Numbers(1), Item::Text(HoldId::BYTES)];

/// How a place begins: its sort, its name, and when it was given to its holder or was left. After that come
/// the units of each policy.
pub(crate) const HEAD: Format = Format(&[&[Item::Bytes(1)], NAME_ITEMS, &[Item::Numbers(1)]]);

/// Lets the program of a reservation take a turn, and have a place of this name.
pub(crate) fn with_line(id: Option<HoldId>, program: &mut Vec<u8>) {
    let end = program.len() - END.size();
    let end = if program[end] & HELD == 0 { end } else { end - HOLD.size() };
    let mut bytes = [0; IN_PROGRAM.size()];
    if let Some(id) = id {
        bytes[0] = 1;
        bytes[1..].copy_from_slice(&id.to_bytes());
    }
    program[KEYS] += 1;
    program.splice(end..end, bytes);
}

/// The place that a script speaks of, as it stands in its set; `None` if it makes no sense.
pub(crate) fn read_place(bytes: &[u8]) -> Option<Place> {
    let (_sort, bytes) = bytes.split_first()?;
    let (name, bytes) = bytes.split_first_chunk()?;
    let (made, units) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
    let number = |bytes: &[u8]| read_numbers(bytes).and_then(|numbers| numbers.first().copied());
    let units = units.chunks(ID_BYTES + NUMBER_BYTES).map(|entry| {
        // A kind, which the identity implies, and the identity.
        let (&[_, a, b, c, d], units) = entry.split_first_chunk()?;
        Some((Identity::from_bytes([a, b, c, d]), number(units)?))
    });
    Some(Place {
        name: PlaceName::from_bytes(name)?,
        made: number(made)?,
        units: units.collect::<Option<_>>()?,
    })
}
