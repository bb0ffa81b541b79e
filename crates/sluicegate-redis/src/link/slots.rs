//! The slots with flights under way, and the calls that wait for them.

use std::collections::VecDeque;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::call::{Call, Company};

/// Maximum number of flights under way for one slot.
const FLIGHTS: u32 = 2;

/// The slots of a server, by which calls are batched.
#[derive(Debug)]
pub(super) enum Slots {
    /// No batching.
    Open,
    /// All keys are in one slot, with this number of flights under way.
    One(u32),
    /// The slots of a cluster node.
    Many(Many),
}

/// The slots of a node with flights under way.
#[derive(Debug, Default)]
pub(super) struct Many {
    busy: HashMap<u16, Busy>,
    /// Slots whose calls may be sent now.
    freed: VecDeque<u16>,
}

#[derive(Debug, Default)]
struct Busy {
    flights: u32,
    /// The tickets of calls that found two flights under way, in the order of these calls.
    passed: VecDeque<u64>,
}

impl Slots {
    /// Returns whether no call at all may be sent.
    pub(super) const fn are_busy(&self) -> bool {
        matches!(self, Self::One(FLIGHTS..))
    }

    /// Returns whether a call may be sent. If not, [`next`](Self::next) returns its ticket once it may.
    /// Tickets before `first` have no caller any longer.
    pub(super) fn admit(&mut self, ticket: u64, first: u64, call: &Call) -> bool {
        match self {
            Self::Many(many) => many.admit(ticket, first, call),
            Self::Open | Self::One(_) => true,
        }
    }

    /// Returns the ticket of a call that may be sent now, and could not be sent before.
    pub(super) fn next(&mut self) -> Option<u64> {
        match self {
            Self::Many(many) => many.next(),
            Self::Open | Self::One(_) => None,
        }
    }

    /// Returns the number of slots with such calls.
    pub(super) fn freed(&self) -> usize {
        match self {
            Self::Many(many) => many.freed.len(),
            Self::Open | Self::One(_) => 0,
        }
    }

    /// Records that a flight has left.
    pub(super) fn left(&mut self, slot: u16) {
        match self {
            Self::Open => {}
            Self::One(flights) => *flights += 1,
            Self::Many(many) => many.busy.entry(slot).or_default().flights += 1,
        }
    }

    /// Records that a flight was answered.
    pub(super) fn landed(&mut self, slot: u16) {
        match self {
            Self::Open => {}
            Self::One(flights) => *flights -= 1,
            Self::Many(many) => many.landed(slot),
        }
    }
}

impl Many {
    fn admit(&mut self, ticket: u64, first: u64, call: &Call) -> bool {
        // Calls without company were redirected before, and commands use no key that is decided on.
        let Call::Script(call) = call else { return true };
        let busy = self.busy.get_mut(&call.slot()).filter(|busy| busy.flights >= FLIGHTS);
        match busy.filter(|_| call.company() == Company::Slot) {
            Some(busy) => {
                while busy.passed.front().is_some_and(|ticket| *ticket < first) {
                    busy.passed.pop_front();
                }
                busy.passed.push_back(ticket);
                false
            }
            None => true,
        }
    }

    fn next(&mut self) -> Option<u64> {
        while let Some(&slot) = self.freed.front() {
            let busy = self.busy.get_mut(&slot).filter(|busy| busy.flights < FLIGHTS);
            if let Some(ticket) = busy.and_then(|busy| busy.passed.pop_front()) {
                return Some(ticket);
            }
            self.freed.pop_front();
            self.forget(slot);
        }
        None
    }

    fn landed(&mut self, slot: u16) {
        let Some(busy) = self.busy.get_mut(&slot) else { return };
        busy.flights -= 1;
        if busy.passed.is_empty() {
            self.forget(slot);
        } else {
            self.freed.push_back(slot);
        }
    }

    /// Removes a slot that has no flight under way.
    fn forget(&mut self, slot: u16) {
        if let Entry::Occupied(busy) = self.busy.entry(slot)
            && busy.get().flights == 0
            && busy.get().passed.is_empty()
        {
            busy.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::ScriptCall;

    fn call(slot: u16) -> Call {
        let mut call = ScriptCall::new(|_| (), &[0; 64]);
        call.set_company(slot, Company::Slot);
        Call::Script(call)
    }

    #[test]
    fn nothing_is_kept_of_a_slot_once_all_is_answered() {
        let mut slots = Slots::Many(Many::default());
        for ticket in 0..4 {
            assert_eq!(slots.admit(ticket, 0, &call(7)), ticket < 2);
            if ticket < 2 {
                slots.left(7);
            }
        }
        assert_eq!(slots.next(), None, "nothing has landed");
        slots.landed(7);
        slots.landed(7);
        // Their callers have given up, so nothing is sent for them.
        assert_eq!([slots.next(), slots.next(), slots.next()], [Some(2), Some(3), None]);
        let Slots::Many(many) = slots else { unreachable!() };
        assert!(many.busy.is_empty() && many.freed.is_empty());
    }

    /// Before, each call that gave up left its ticket while the node hung.
    #[test]
    fn tickets_of_callers_who_are_gone_do_not_pile_up() {
        let mut slots = Slots::Many(Many::default());
        (0..2).for_each(|_| slots.left(7));
        for ticket in 0..1_000 {
            assert!(!slots.admit(ticket, ticket.saturating_sub(10), &call(7)));
        }
        let Slots::Many(many) = slots else { unreachable!() };
        assert_eq!(many.busy[&7].passed.len(), 11);
    }
}
