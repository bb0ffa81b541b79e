//! Units of a state that are outstanding until one time.

use crate::time::Span;

/// The units that are outstanding until one time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Slot {
    /// When they no longer are, in µs since the epoch.
    pub until: u64,
    /// How many there are, at least 1.
    pub units: u64,
    /// What the slot is called: a random number below 2^53 that whoever opened it has drawn.
    pub tag: u64,
}

impl Slot {
    /// How many numbers it is stored as.
    pub const NUMBERS: usize = 3;
}

/// All units that are outstanding.
pub(crate) fn total(slots: &[Slot]) -> u64 {
    slots.iter().map(|slot| slot.units).sum()
}

/// Slots end no later than the longest one that begins now.
pub(super) fn bring_near(slots: &mut [Slot], now: u64, longest: Span) {
    let longest = now.saturating_add(longest.as_micros());
    for slot in slots {
        slot.until = slot.until.min(longest);
    }
}
