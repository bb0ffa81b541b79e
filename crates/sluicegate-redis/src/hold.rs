//! Holds in programs: a call leaves a record of its charge, and later calls settle it or give it back.
//!
//! A program with a hold has these bytes before its end. Its call has one more key for each part, after all
//! others: the record of that id (`lua/hold.lua`). If the flags include 2, as many keys follow for the
//! subjects' sets of held units.
//!
//! | bytes | hold |
//! | --- | --- |
//! | 16 | id, which names the record |
//! | 7 | lifetime of the record, µs |
//! | 1 | 1 if the charge is put into [slots](sluicegate_core::kernel::Bound), plus 2 if units in flight are counted or given back when the hold ends |

use sluicegate_core::kernel::{HEAD_BYTES, ID_BYTES, NUMBER_BYTES};
use sluicegate_core::{HoldId, Limit, MAX_EXACT, Operation, Request, Span, Ticket};

use crate::format::{Format, Item};
use crate::program_frame::{END, INJECTED, KEYS, LANE, put};
use crate::twin::Lane;

/// A flag added to an operation that leaves a record. With [`GiveBack`](sluicegate_core::Operation::GiveBack)
/// it uses the record, and the costs are the maximum units that are given back.
pub(crate) const HELD: u8 = 128;

/// The bytes of a hold in a program.
pub(crate) const HOLD: Format =
    Format(&[&[Item::Text(HoldId::BYTES), Item::Numbers(1), Item::Bytes(1)]]);

/// An id as numbers, from which the tag of a slot is made.
pub(crate) const ID: Format = Format(&[ID_ITEMS]);
const ID_ITEMS: &[Item] = &[Item::Whole(6), Item::Whole(6), Item::Whole(4)];

/// The beginning of a record: its expiry, the group that counts it, and its generation.
pub(crate) const RECORD: Format = Format(&[BEGINNING]);
/// A whole record.
pub(crate) const WHOLE_RECORD: Format = Format(&[BEGINNING, &[Item::Rest]]);

/// The beginning of a member in the set of units in flight: its sort, its expiry, and its id.
pub(crate) const HEAD: Format =
    Format(&[&[Item::Bytes(1), Item::Numbers(1), Item::Text(HoldId::BYTES)]]);

/// A whole member.
pub(crate) const MEMBER: Format =
    Format(&[&[Item::Bytes(1), Item::Numbers(1), Item::Text(HoldId::BYTES), Item::Rest]]);

/// The kind of the entry that counts a subject's records.
pub(crate) const TALLY_KIND: u8 = 0x86;
/// Maximum number of groups of a subject's tally.
pub(crate) const GROUPS: usize = 16;

/// Flag of a hold whose charge is put into slots.
const SLOTS: u8 = 1;
/// Flag of a hold whose units in flight are counted, or given back at its end. The subject has a set of them.
pub(crate) const INDEXED: u8 = 2;

/// The kind of the entry that marks a record to give back at its end. The entry has no more content.
pub(crate) const RETURNING_KIND: u8 = 0x87;

/// The entry of one policy: its kind and identity, the length of the rest, and the units.
pub(crate) const ENTRY_OF_ONE: Format = Format(&[ENTRY, &[Item::Numbers(5)]]);
/// The entry of a bucket, with the state after the charge.
pub(crate) const ENTRY_OF_BUCKET: Format =
    Format(&[ENTRY, &[Item::Numbers(5), Item::Whole(HEAD_BYTES), Item::Numbers(3)]]);
/// A settled record of one policy.
pub(crate) const SETTLED_ONE: Format = Format(&[BEGINNING, ENTRY, &[Item::Numbers(1)]]);
const BEGINNING: &[Item] = &[Item::Numbers(3)];
const ENTRY: &[Item] = &[Item::Whole(ID_BYTES), Item::Whole(2)];

/// The bytes of a hold in a program, without the flags, as numbers.
pub(crate) const HOLD_NUMBERS: Format = Format(&[ID_ITEMS, &[Item::Numbers(1)]]);

/// An entry of a settled policy.
pub(crate) const SETTLED_ENTRY: Format = Format(&[ENTRY, &[Item::Numbers(1)]]);

/// The brief reply to a settlement: what was found, the units given back, and the states.
pub(crate) const GIVEN: Format = Format(&[&[Item::Bytes(1), Item::Numbers(1), Item::Rest]]);

/// A record's data of each policy: units, their evaluation time, a bucket's unit and refill, and the tag of
/// their slot.
pub(crate) const UNITS: Format = Format(&[&[Item::Numbers(5)]]);

/// A value for used units that equal the charged ones, and for no slot.
pub(crate) const AS_CHARGED: u64 = MAX_EXACT + 1;

// The kinds of records found under an id.
pub(crate) const UNKNOWN: i64 = 0;
pub(crate) const SETTLED: i64 = 1;
pub(crate) const LIVE: i64 = 2;
/// An ended ticket.
pub(crate) const WAITED: i64 = 3;

/// A flag added to an operation that leaves a record: if necessary it waits, with a ticket.
pub(crate) const WAITING: u8 = 32;

/// The bytes of a ticket in a program, before the hold: its priority, its lifetime, and its listener's
/// number, or 0.
pub(crate) const TICKET: Format = Format(&[&[Item::Bytes(1), Item::Numbers(2)]]);

/// The prefix of the channel of a listener, which its number completes.
pub(crate) const CHANNEL: &str = "sluicegate:turns:";

const NAME: &[Item] = &[Item::Text(HoldId::BYTES)];
const POLICY: &[Item] = &[Item::Text(ID_BYTES)];
/// Priority and number.
const PLACE: &[Item] = &[Item::Bytes(1), Item::Numbers(1)];
const ONE: &[Item] = &[Item::Numbers(1)];
/// Units, and the listener.
const TWO: &[Item] = &[Item::Numbers(2)];
/// The members of a ticket, after their prefixes.
pub(crate) const TICKET_TIME: Format = Format(&[ONE, NAME, POLICY, PLACE]);
pub(crate) const TICKET_PLACE: Format = Format(&[PLACE, NAME, TWO]);
pub(crate) const TICKET_ID: Format = Format(&[POLICY, PLACE, ONE, TWO]);

/// The brief reply to a request with a ticket: one of the following, and the number of tickets before it.
pub(crate) const QUEUED: Format = Format(&[&[Item::Bytes(1), Item::Numbers(1)]]);
pub(crate) const NOT_QUEUED: u8 = 0;
pub(crate) const IN_QUEUE: u8 = 1;
pub(crate) const QUEUE_FULL: u8 = 2;

/// The id and lifetime of a record that a call leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) id: HoldId,
    pub(crate) life: Span,
}

/// Returns a unique id: 128 random bits.
pub(crate) fn random_id() -> HoldId {
    HoldId::from_bytes(fastrand::u128(..).to_be_bytes())
}

/// Makes a program leave a record with this lifetime, or use the existing one. The units are put into no
/// slots, because they are given back immediately or never.
pub fn with_record(limit: &Limit, id: HoldId, life: Span, program: &mut Vec<u8>) {
    add_record(limit, id, life, 0, program);
}

/// Makes a program leave the record of a caller's hold.
pub(crate) fn with_hold(limit: &Limit, id: HoldId, life: Span, program: &mut Vec<u8>) {
    add_record(limit, id, life, SLOTS, program);
}

fn add_record(limit: &Limit, id: HoldId, life: Span, slots: u8, program: &mut Vec<u8>) {
    let index = if has_set(limit) { INDEXED } else { 0 };
    let end = program.len() - END.size();
    let mut bytes = [0; HOLD.size()];
    bytes[..HoldId::BYTES].copy_from_slice(&id.to_bytes());
    put(&mut bytes[HoldId::BYTES..], life.as_micros());
    bytes[HOLD.size() - 1] = slots + index;
    // Few paths support holds: see `Program::bytes`.
    program[LANE] = Lane::General as u8 + program[LANE] / INJECTED * INJECTED;
    if program[end] & HELD != 0 {
        program[end - HOLD.size()..end].copy_from_slice(&bytes);
        return;
    }
    program[end] |= HELD;
    let parts = program[end + 1];
    program[KEYS] += parts * if index > 0 { 2 } else { 1 };
    program.splice(end..end, bytes);
}

/// Makes a program with a hold wait if it has to.
pub(crate) fn with_ticket(ticket: &Ticket, program: &mut Vec<u8>) {
    let end = program.len() - END.size();
    program[end] |= WAITING;
    let mut bytes = [0; TICKET.size()];
    bytes[0] = ticket.priority;
    put(&mut bytes[1..], ticket.lives.as_micros());
    let before_hold = end - HOLD.size();
    program.splice(before_hold..before_hold, bytes);
}

/// Sets the listener for the ticket of a program.
pub(crate) fn set_listener(number: u64, program: &mut [u8]) {
    let end = program.len() - END.size() - HOLD.size();
    put(&mut program[end - NUMBER_BYTES..], number);
}

/// Returns whether the limit's subjects have a set of held units.
pub(crate) fn has_set(limit: &Limit) -> bool {
    limit.has_permits() || limit.has_returns()
}

/// Returns the id and lifetime of the record that a request leaves or uses.
///
/// Other requests get an all-zero id if their limit has a set of held units. So the call has the keys of the
/// records.
pub(crate) fn record_of(limit: &Limit, request: &Request<'_>) -> Option<(HoldId, Span)> {
    match (request.operation(), request.holds()) {
        (Operation::Settle { id, .. }, _) => Some((id, Span::ZERO)),
        (Operation::Renew { id, lasts }, _) => Some((id, lasts)),
        (_, Some(hold)) => Some((hold.id, hold.lasts.into())),
        // A reset has the keys of the records anyway.
        (Operation::Reset, _) => None,
        _ if has_set(limit) => Some((HoldId::from_bytes([0; HoldId::BYTES]), Span::ZERO)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Limit, Request};

    use super::*;
    use crate::program::Program;

    #[test]
    fn a_hold_stands_before_the_end_and_nothing_else_moves() {
        let limit = Limit::new("l", vec!["gcra 1/s"]).unwrap();
        let plain =
            Program::new(&limit, Span::SECOND).bytes(&limit, &Request::check(b"a"), |_| 0, None);
        let mut held = plain.clone();
        with_record(&limit, HoldId::from_bytes([7; 16]), Span::SECOND, &mut held);
        let end = plain.len() - END.size();
        assert_eq!(held.len(), plain.len() + 24);
        assert_eq!((plain[KEYS], held[KEYS], held[LANE]), (1, 2, Lane::General as u8));
        assert_eq!(held[end..end + 16], [7; 16]);
        assert_eq!(held[end + 16..end + 23], 1_000_000_u64.to_be_bytes()[1..]);
        assert_eq!(held[end + 23], 0);
        assert_eq!(held[end + 24], plain[end] | HELD);
        assert_eq!(held[end + 25..], plain[end + 1..]);
        assert_ne!(random_id(), random_id());
    }
}
