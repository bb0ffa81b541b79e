//! Slots of a state: leased units, and the time until which they are outstanding.

use super::refusal::Refusal;
use crate::times::micros;
use sluicegate_core::{Hold, MAX_EXACT};

/// The slots of one state, in the order in which they end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Vec<Slot>);

/// Units that are outstanding until the same instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The first instant at which they are no longer outstanding, in microseconds since the epoch.
    pub(crate) until: u64,
    pub(crate) units: u64,
    /// The tag that reports use for the slot.
    pub(crate) tag: u64,
    /// The booked share of the rate, in millionths.
    pub(crate) share: u64,
}

/// A slot for a new hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) until: u64,
    pub(crate) tag: u64,
}

impl Place {
    /// Returns the slot of a hold requested at `now`. Its end is rounded up to a multiple of a
    /// power of two: the first one that is at least half the hold's duration.
    pub(crate) fn of(hold: &Hold, now: u64) -> Self {
        let life = micros(hold.lasts);
        let mut width = 1;
        while 2 * width < life {
            width *= 2;
        }
        let end = now + life;
        let until = end.next_multiple_of(width);
        let id = u128::from_be_bytes(hold.id.to_bytes());
        let (first, second, third) = (id >> 80, (id >> 32) % (1 << 48), id % (1 << 32));
        let sum = first + second + third + u128::from(until % (1 << 50));
        Self { until, tag: u64::try_from(sum).unwrap_or(u64::MAX) }
    }

    /// Returns `true` if the slot ends after `at` and a state can store its end.
    pub(crate) const fn is_after(self, at: u64) -> bool {
        self.until > at && self.until <= MAX_EXACT
    }
}

impl Slots {
    /// Maximum number of slots in a state.
    const MAX: usize = 16;
    /// Maximum number of slots of held units.
    const MAX_HELD: usize = 8;
    /// Longest time from now to a lease slot's end after a restamp.
    const LONGEST_US: u64 = 60_000_000;
    /// Longest time from now to a hold slot's end: a day and the largest rounding of its end.
    const LONGEST_HELD_US: u64 = 86_400_000_000 + 68_719_476_736;

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }

    /// Returns the units of all slots.
    pub(crate) fn outstanding(&self) -> u64 {
        self.0.iter().map(|slot| slot.units).sum()
    }

    /// Returns the booked share of the rate, in millionths.
    pub(crate) fn booked(&self) -> u64 {
        self.0.iter().map(|slot| slot.share).sum()
    }

    /// Returns the end of the first slot.
    pub(crate) fn first_end(&self) -> Option<u64> {
        self.0.first().map(|slot| slot.until)
    }

    /// Removes the slots that have ended at `at`.
    pub(crate) fn drop_over(&mut self, at: u64) {
        self.0.retain(|slot| slot.until > at);
    }

    /// Limits the ends of leases to `LONGEST_US` after `now`.
    pub(crate) fn restamp(&mut self, now: u64) {
        self.end_within(now, Self::LONGEST_US);
    }

    /// Limits the ends of holds to `LONGEST_HELD_US` after `now`.
    pub(crate) fn restamp_held(&mut self, now: u64) {
        self.end_within(now, Self::LONGEST_HELD_US);
    }

    fn end_within(&mut self, now: u64, longest: u64) {
        for slot in &mut self.0 {
            slot.until = slot.until.min(now + longest);
        }
    }

    /// Returns these slots and others as one list.
    pub(crate) fn with(&self, others: &Self) -> Self {
        let mut all: Vec<Slot> = self.0.iter().chain(&others.0).copied().collect();
        all.sort_by_key(|slot| slot.until);
        Self(all)
    }

    /// Holds units until a time: in the slot with that end, in a new one, or in the next later one.
    /// Returns the slot's tag, or `None` if there is no slot.
    pub(crate) fn hold(&mut self, Place { until, tag }: Place, units: u64) -> Option<u64> {
        let may_open = self.0.len() < Self::MAX_HELD && !self.0.iter().any(|slot| slot.tag == tag);
        let is_fit = |slot: &&mut Slot| slot.until == until || !may_open && slot.until > until;
        if let Some(slot) = self.0.iter_mut().find(is_fit) {
            slot.units += units;
            return Some(slot.tag);
        }
        may_open.then(|| {
            self.add(until, tag, units, 0);
            tag
        })
    }

    /// Returns the end of the slot with this tag, if it has at least `units`.
    pub(crate) fn end_of(&self, tag: u64, units: u64) -> Option<u64> {
        let own = self.0.iter().find(|slot| slot.tag == tag && slot.units >= units);
        own.map(|slot| slot.until)
    }

    /// Removes units from the slot with this tag, which has at least that many.
    pub(crate) fn release(&mut self, tag: u64, units: u64) {
        self.take(tag, units, 0);
    }

    /// Returns `true` if a lease with this tag that ends at `until` fits into a slot.
    pub(crate) fn has_place(&self, until: u64, tag: u64) -> bool {
        let mut own = self.0.iter().filter(|slot| slot.tag == tag).peekable();
        match own.peek() {
            Some(_) => own.all(|slot| slot.until == until),
            None => self.0.len() < Self::MAX,
        }
    }

    /// Adds units and a share to the slot with this tag, which is created if missing.
    pub(crate) fn add(&mut self, until: u64, tag: u64, units: u64, share: u64) {
        if let Some(own) = self.0.iter_mut().find(|slot| slot.tag == tag) {
            own.units += units;
            own.share += share;
            return;
        }
        let behind = self.0.iter().take_while(|slot| slot.until <= until).count();
        self.0.insert(behind, Slot { until, units, tag, share });
    }

    /// Takes units and a share from the slot with this tag. Returns `false`, and changes nothing, if it has
    /// fewer than `had`.
    pub(crate) fn lower(&mut self, tag: u64, had: (u64, u64), (units, share): (u64, u64)) -> bool {
        let has = |slot: &&mut Slot| slot.tag == tag && slot.units >= had.0 && slot.share >= had.1;
        let Some(own) = self.0.iter_mut().find(has) else { return false };
        own.units -= units;
        own.share -= share;
        self.0.retain(|slot| slot.units + slot.share > 0);
        true
    }

    /// Removes reported units from the slot with this tag, returned units before spent ones.
    /// Returns the number of returned units, or `None` if nothing changed.
    pub(crate) fn take(&mut self, tag: u64, spent: u64, returned: u64) -> Option<u64> {
        let own = self.0.iter_mut().find(|slot| slot.tag == tag)?;
        let returned = returned.min(own.units);
        let spent = spent.min(own.units - returned);
        own.units -= returned + spent;
        self.0.retain(|slot| slot.units + slot.share > 0);
        (returned + spent > 0).then_some(returned)
    }
}

/// Returns the microseconds between two times in which a bucket drains, if this share of its rate is
/// booked. The bucket drains in the rest of the time since the epoch, rounded down.
pub(super) fn drained_micros(from: u64, to: u64, share: u64) -> u64 {
    let drained = |at: u64| u128::from(at) * (1_000_000 - u128::from(share)) / 1_000_000;
    u64::try_from(drained(to) - drained(from)).unwrap_or(u64::MAX)
}

/// Returns the first instant from `from` on at which a condition holds that remains true once it
/// is, or `None` if it never holds.
pub(super) fn first_instant(
    from: u64,
    is_so: impl Fn(u64) -> Result<bool, Refusal>,
) -> Result<Option<u64>, Refusal> {
    // By then everything that a state can hold has drained after the last slot, even at the lowest
    // rate.
    let (mut before, mut then) = (from, from + 2 * MAX_EXACT);
    if is_so(from)? {
        return Ok(Some(from));
    }
    if !is_so(then)? {
        return Ok(None);
    }
    while then - before > 1 {
        let middle = before + (then - before) / 2;
        if is_so(middle)? { then = middle } else { before = middle }
    }
    Ok(Some(then))
}
