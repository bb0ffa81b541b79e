//! Units of a state that are outstanding until one time.

use crate::time::Span;

/// The units that are outstanding until one time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Slot {
    /// The time when they stop being outstanding, in µs since the epoch.
    pub until: u64,
    /// The number of units, at least 1.
    pub units: u64,
    /// The name of the slot: a random number below 2^53 chosen by the request that opened it.
    pub tag: u64,
}

impl Slot {
    /// The number of numbers in which a slot is stored.
    pub const NUMBERS: usize = 3;
}

/// Returns the number of all outstanding units.
pub(crate) fn total(slots: &[Slot]) -> u64 {
    slots.iter().map(|slot| slot.units).sum()
}

/// Moves the ends of slots to the longest time from now at the latest.
pub(super) fn bring_near(slots: &mut [Slot], now: u64, longest: Span) {
    let longest = now.saturating_add(longest.as_micros());
    for slot in slots {
        slot.until = slot.until.min(longest);
    }
}
