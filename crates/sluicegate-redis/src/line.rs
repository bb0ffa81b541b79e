//! Reservation queues: a reservation takes over a released turn and gets a queue position, and a cancellation
//! releases a turn.
//!
//! A program that reserves with a queue has these bytes before its end, or its [hold](crate::hold). Its call
//! has one more key before those of the hold: the subject's reservation queue (`lua/reservations.lua`).
//!
//! | bytes | queue position |
//! | --- | --- |
//! | 1 | 1 if the reservation gets a position |
//! | 16 | its id |

use sluicegate_core::HoldId;
use sluicegate_core::for_stores::{Identity, Place, PlaceName};
use sluicegate_core::kernel::{ID_BYTES, NUMBER_BYTES};
use sluicegate_core::record::read_numbers;

use crate::format::{Format, Item};
use crate::hold::{HELD, HOLD};
use crate::program_frame::{END, KEYS};

/// The bytes of a queue position in a program.
pub(crate) const IN_PROGRAM: Format = Format(&[&[Item::Bytes(1), Item::Text(HoldId::BYTES)]]);

/// The name of a queue position: its instant and id.
pub(crate) const NAME: Format = Format(&[NAME_ITEMS]);
const NAME_ITEMS: &[Item] = &[Item::Numbers(1), Item::Text(HoldId::BYTES)];

/// The beginning of a queue entry: its sort, its name, and the time when its holder got it or released it.
/// Then follow the units of each policy.
pub(crate) const HEAD: Format = Format(&[&[Item::Bytes(1)], NAME_ITEMS, &[Item::Numbers(1)]]);

/// Lets the program of a reservation take over a turn, and get a position with this id.
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

/// Parses a queue entry from its set; `None` if it is malformed.
pub(crate) fn read_place(bytes: &[u8]) -> Option<Place> {
    let (_sort, bytes) = bytes.split_first()?;
    let (name, bytes) = bytes.split_first_chunk()?;
    let (made, units) = bytes.split_first_chunk::<NUMBER_BYTES>()?;
    let number = |bytes: &[u8]| read_numbers(bytes).and_then(|numbers| numbers.first().copied());
    let units = units.chunks(ID_BYTES + NUMBER_BYTES).map(|entry| {
        // The kind, which the identity implies, and the identity.
        let (&[_, a, b, c, d], units) = entry.split_first_chunk()?;
        Some((Identity::from_bytes([a, b, c, d]), number(units)?))
    });
    Some(Place {
        name: PlaceName::from_bytes(name)?,
        made: number(made)?,
        units: units.collect::<Option<_>>()?,
    })
}
