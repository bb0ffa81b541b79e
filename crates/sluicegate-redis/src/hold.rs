//! Holds: what makes a call leave a record of what it charges, and others settle that or give it back.
//!
//! A program with a hold has these bytes before its end, and one more key per part, after all others:
//! the record of that id (`lua/hold.lua`); and then, if 2 is among the flags, as many for the sets of what is held.
//!
//! | bytes | hold |
//! | --- | --- |
//! | 16 | id, which names the record |
//! | 7 | for how many µs the record lives |
//! | 1 | 1 if what is charged is put into [slots](sluicegate_core::kernel::Bound), and 2 more if what is in flight is counted or given back at its end |

use sluicegate_core::kernel::{HEAD_BYTES, ID_BYTES, NUMBER_BYTES};
use sluicegate_core::{Action, HoldId, Limit, MAX_EXACT, Operation, Request, Span, Ticket};

use crate::format::{Format, Item};
use crate::program_frame::{END, INJECTED, KEYS, LANE, put};
use crate::twin::Lane;

/// Added to an operation: it leaves a record. To [`GiveBack`](sluicegate_core::Operation::GiveBack):
/// it goes by the record, and the costs are the most units that are given back.
pub(crate) const HELD: u8 = 128;

/// What a program has of a hold.
pub(crate) const HOLD: Format =
    Format(&[&[Item::Text(HoldId::BYTES), Item::Numbers(1), Item::Bytes(1)]]);

/// An id as numbers, of which the tag of a slot is made.
pub(crate) const ID: Format = Format(&[ID_ITEMS]);
const ID_ITEMS: &[Item] = &[Item::Whole(6), Item::Whole(6), Item::Whole(4)];

/// How a record begins: until when it lives, the group that counts it, and its generation.
pub(crate) const RECORD: Format = Format(&[BEGINNING]);
/// And the whole.
pub(crate) const WHOLE_RECORD: Format = Format(&[BEGINNING, &[Item::Rest]]);

/// How one that is in flight begins in the set of those: its sort, until when it lives, and its id.
pub(crate) const HEAD: Format =
    Format(&[&[Item::Bytes(1), Item::Numbers(1), Item::Text(HoldId::BYTES)]]);

/// And the whole.
pub(crate) const MEMBER: Format =
    Format(&[&[Item::Bytes(1), Item::Numbers(1), Item::Text(HoldId::BYTES), Item::Rest]]);

/// The kind of the entry that counts a subject's records,
pub(crate) const TALLY_KIND: u8 = 0x86;
/// and how many groups it has at most.
pub(crate) const GROUPS: usize = 16;

/// Flags of a hold: what is charged is put into slots,
const SLOTS: u8 = 1;
/// what is in flight is counted, or given back at its end: the subject has a set of that.
pub(crate) const INDEXED: u8 = 2;

/// The kind of an entry of a record that is given back at its end, which has nothing else.
pub(crate) const RETURNING_KIND: u8 = 0x87;

/// The entry of one policy: its kind and identity, the length of what follows, and the units.
pub(crate) const ENTRY_OF_ONE: Format = Format(&[ENTRY, &[Item::Numbers(5)]]);
/// The same of a bucket, with the state that it was left in.
pub(crate) const ENTRY_OF_BUCKET: Format =
    Format(&[ENTRY, &[Item::Numbers(5), Item::Whole(HEAD_BYTES), Item::Numbers(3)]]);
/// A record of one policy that was settled.
pub(crate) const SETTLED_ONE: Format = Format(&[BEGINNING, ENTRY, &[Item::Numbers(1)]]);
const BEGINNING: &[Item] = &[Item::Numbers(3)];
const ENTRY: &[Item] = &[Item::Whole(ID_BYTES), Item::Whole(2)];

/// What a program has of a hold, but its flags, all in numbers.
pub(crate) const HOLD_NUMBERS: Format = Format(&[ID_ITEMS, &[Item::Numbers(1)]]);

/// An entry of a policy that was settled.
pub(crate) const SETTLED_ENTRY: Format = Format(&[ENTRY, &[Item::Numbers(1)]]);

/// What is said briefly of a settlement: what was found, what was given back, and the states.
pub(crate) const GIVEN: Format = Format(&[&[Item::Bytes(1), Item::Numbers(1), Item::Rest]]);

/// What a record has of each policy: units, their time of judgement, a bucket's unit and refill, and the
/// tag of the slot they are in.
pub(crate) const UNITS: Format = Format(&[&[Item::Numbers(5)]]);

/// What stands for a policy's used units that are as many as it charged, and for no slot.
pub(crate) const AS_CHARGED: u64 = MAX_EXACT + 1;

// What is found under an id.
pub(crate) const UNKNOWN: i64 = 0;
pub(crate) const SETTLED: i64 = 1;
pub(crate) const LIVE: i64 = 2;
/// A ticket, and it has ended.
pub(crate) const WAITED: i64 = 3;

/// Added to an operation that leaves a record: it waits if it has to, with a ticket.
pub(crate) const WAITING: u8 = 32;

/// What a program has of a ticket, before the hold: its priority, how long it lives, and the number of who
/// listens for it, 0 for nobody.
pub(crate) const TICKET: Format = Format(&[&[Item::Bytes(1), Item::Numbers(2)]]);

/// What the name of the channel begins with on which somebody listens; the number ends it.
pub(crate) const CHANNEL: &str = "sluicegate:turns:";

const NAME: &[Item] = &[Item::Text(HoldId::BYTES)];
const POLICY: &[Item] = &[Item::Text(ID_BYTES)];
/// Priority and number.
const PLACE: &[Item] = &[Item::Bytes(1), Item::Numbers(1)];
const ONE: &[Item] = &[Item::Numbers(1)];
/// Units, and who listens.
const TWO: &[Item] = &[Item::Numbers(2)];
/// The members of a ticket after what begins them.
pub(crate) const TICKET_TIME: Format = Format(&[ONE, NAME, POLICY, PLACE]);
pub(crate) const TICKET_PLACE: Format = Format(&[PLACE, NAME, TWO]);
pub(crate) const TICKET_ID: Format = Format(&[POLICY, PLACE, ONE, TWO]);

/// What is said of a request that was to wait: which of these, and how many tickets stand before it.
pub(crate) const QUEUED: Format = Format(&[&[Item::Bytes(1), Item::Numbers(1)]]);
pub(crate) const NOT_QUEUED: u8 = 0;
pub(crate) const IN_QUEUE: u8 = 1;
pub(crate) const QUEUE_FULL: u8 = 2;

/// What a call leaves a record of, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) id: HoldId,
    pub(crate) life: Span,
}

/// An id that no other call has: 128 random bits.
pub(crate) fn random_id() -> HoldId {
    HoldId::from_bytes(fastrand::u128(..).to_be_bytes())
}

/// Makes a program leave a record that lives so long, or go by the record that there is. What is held so
/// is given back at once or never, so that it is put into no slots.
pub fn with_record(limit: &Limit, id: HoldId, life: Span, program: &mut Vec<u8>) {
    add_record(limit, id, life, 0, program);
}

/// The same of what somebody holds.
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
    // Few lanes know holds: see `Program::bytes`.
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

/// Says who listens for the ticket of a program.
pub(crate) fn set_listener(number: u64, program: &mut [u8]) {
    let end = program.len() - END.size() - HOLD.size();
    put(&mut program[end - NUMBER_BYTES..], number);
}

/// Whether the subjects of a limit have a set of what is held.
pub(crate) fn has_set(limit: &Limit) -> bool {
    limit.has_permits() || limit.has_returns()
}

/// The record that a request leaves or goes by, and how long it is to live. Where what others hold matters
/// to all, that of nobody: then the call has the records at hand.
pub(crate) fn record_of(limit: &Limit, request: &Request<'_>) -> Option<(HoldId, Span)> {
    match (request.action(), request.holds()) {
        (Action::Settle { id, .. }, _) => Some((id, Span::ZERO)),
        (Action::Renew { id, lasts }, _) => Some((id, lasts)),
        (_, Some(hold)) => Some((hold.id, hold.lasts)),
        // Its records come along anyway.
        (Action::Decide(Operation::Reset), _) => None,
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
