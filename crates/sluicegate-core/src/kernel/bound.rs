//! A second upper bound for the use of a bucket, kept while some of its units are held.
//!
//! A bucket whose held units drain like any others can give little back when they are settled late.
//! So while units are held, the bucket keeps a second bound of its deficit, in which they don't
//! drain. It counts settled and held units. The second bound is a [lease](super::leased) with one
//! holder, so it has slots as leases have, and giving unused units back is exact. Both are bounds
//! of the real use. The bucket uses the smaller one, to which its deficit is set at each
//! settlement. `docs/semantics.md#holding` explains why both hold.

use smallvec::SmallVec;

use super::Now;
use super::slot::Slot;
use crate::hold::HoldId;
use crate::number::MAX_EXACT;
use crate::time::Span;

/// The second bound of a bucket with held units.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bound {
    /// The deficit in which held units don't drain, at the newest time, in the ticks of the state.
    pub deficit: u64,
    /// The slots of the held units, in the order in which they end.
    pub slots: SmallVec<[Slot; Bound::MAX_SLOTS]>,
}

/// A slot for units to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) until: u64,
    tag: u64,
}

impl Bound {
    /// The maximum number of slots for held units.
    pub const MAX_SLOTS: usize = 8;
    /// The longest time for which units are in a slot: a day, plus the rounding of its end. Slots
    /// that lie further ahead, because the clock was set back, are moved to that time.
    pub const LONGEST: Span = match Span::from_micros(Span::DAY.as_micros() + (1 << 36)) {
        Ok(longest) => longest,
        Err(_) => Span::DAY,
    };
}

impl Place {
    /// Returns the slot for a hold of this duration.
    ///
    /// Holds of similar durations share a slot, so few slots are enough. The slot ends no sooner
    /// than its holds. Its tag comes from the id of the hold that opens it, so it doesn't repeat
    /// when the clock is set back.
    pub(crate) fn of(id: HoldId, lasts: Span, now: Now) -> Self {
        let lasts = lasts.as_micros();
        let width = lasts.div_ceil(2).next_power_of_two();
        let until = now.micros.saturating_add(lasts).div_ceil(width).saturating_mul(width);
        let id = id.to_bytes();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let tag = number(&id[..6]) + number(&id[6..12]) + number(&id[12..]) + until % (1 << 50);
        Self { until, tag }
    }

    /// Returns `true` if the slot ends after a time, and its end fits into a state.
    pub(crate) const fn is_after(self, at: u64) -> bool {
        self.until > at && self.until <= MAX_EXACT
    }
}

pub(super) type Slots = SmallVec<[Slot; Bound::MAX_SLOTS]>;

/// Adds units to the slot that ends at this time, to a new one, or to one that ends later.
pub(super) fn add(slots: &mut Slots, units: u64, place: Place, at: u64) -> Option<u64> {
    let Place { until, tag } = place;
    if !place.is_after(at) {
        return None;
    }
    let is_free = slots.len() < Bound::MAX_SLOTS && slots.iter().all(|slot| slot.tag != tag);
    let place = slots.partition_point(|slot| slot.until < until);
    match slots.get_mut(place) {
        Some(slot) if slot.until == until || !is_free => {
            slot.units += units;
            Some(slot.tag)
        }
        _ if is_free => {
            slots.insert(place, Slot { until, units, tag, share: 0 });
            Some(tag)
        }
        _ => None,
    }
}

/// Takes units out of the slot with this tag, if they are in it, and returns when the slot ends.
pub(super) fn remove(slots: &mut Slots, tag: u64, units: u64) -> Option<u64> {
    let slot = slots.iter_mut().find(|slot| slot.tag == tag && slot.units >= units)?;
    let until = slot.until;
    slot.units -= units;
    slots.retain(|slot| slot.units > 0);
    Some(until)
}
