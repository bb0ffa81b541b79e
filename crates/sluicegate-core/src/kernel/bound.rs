//! What a bucket has used at most, known in a second way while units are held of it.
//!
//! A bucket whose held units drain like any others can give little back when they are settled late. So
//! while units are held it keeps a second bound of its deficit, in which they don't drain: what is
//! settled and what is held. That is a [lease](super::leased) with one holder, so it has slots as leases
//! have, and giving back what was not used is exact. Both are bounds of what was really used;
//! the bucket goes by the smaller one, which its deficit is made whenever something is settled.
//! `docs/semantics.md#holding` says why both hold.

use smallvec::SmallVec;

use super::Now;
use super::slot::Slot;
use crate::hold::HoldId;
use crate::number::MAX_EXACT;
use crate::time::Span;

/// The second bound of a bucket of which units are held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bound {
    /// The deficit in which what is held doesn't drain: at the newest time, in the ticks of the state.
    pub deficit: u64,
    /// What is held, the slot that ends first first.
    pub slots: SmallVec<[Slot; Bound::MAX_SLOTS]>,
}

/// A slot for units that are to be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) until: u64,
    tag: u64,
}

impl Bound {
    /// The most slots for what is held.
    pub const MAX_SLOTS: usize = 8;
    /// The longest time for which units are in a slot: a day, and what its end is rounded up by.
    /// Slots that lie further ahead, because the clock stepped back, are brought to it.
    pub const LONGEST: Span = match Span::from_micros(Span::DAY.as_micros() + (1 << 36)) {
        Ok(longest) => longest,
        Err(_) => Span::DAY,
    };
}

impl Place {
    /// The slot for what somebody holds for so long: those of similar lives end together, no sooner than
    /// what they hold, so that few slots are enough. Its tag comes from the id of the hold for which it
    /// is opened, and doesn't come again when the clock steps back.
    pub(crate) fn of(id: HoldId, lasts: Span, now: Now) -> Self {
        let lasts = lasts.as_micros();
        let width = lasts.div_ceil(2).next_power_of_two();
        let until = now.micros.saturating_add(lasts).div_ceil(width).saturating_mul(width);
        let id = id.to_bytes();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let tag = number(&id[..6]) + number(&id[6..12]) + number(&id[12..]) + until % (1 << 50);
        Self { until, tag }
    }

    /// Whether it ends after a time, and a state can say when.
    pub(crate) const fn is_after(self, at: u64) -> bool {
        self.until > at && self.until <= MAX_EXACT
    }
}

pub(super) type Slots = SmallVec<[Slot; Bound::MAX_SLOTS]>;

/// Adds units to the slot that ends then, to a new one, or to one that ends later.
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
            slots.insert(place, Slot { until, units, tag });
            Some(tag)
        }
        _ => None,
    }
}

/// Takes units out of the slot of this tag, if they are in it, and says when it ends.
pub(super) fn remove(slots: &mut Slots, tag: u64, units: u64) -> Option<u64> {
    let slot = slots.iter_mut().find(|slot| slot.tag == tag && slot.units >= units)?;
    let until = slot.until;
    slot.units -= units;
    slots.retain(|slot| slot.units > 0);
    Some(until)
}
