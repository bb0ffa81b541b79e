//! Units of a state that are leased: until when how many are outstanding.

use super::refusal::Refusal;
use sluicegate_core::{Hold, MAX_EXACT};

/// The slots of one state, in the order in which they end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Vec<Slot>);

/// Units that are outstanding until the same instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The first instant at which they are outstanding no longer, in microseconds since the epoch.
    pub(crate) until: u64,
    /// At least 1.
    pub(crate) units: u64,
    /// What reports call the slot.
    pub(crate) tag: u64,
}

/// A slot for what somebody is to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) until: u64,
    pub(crate) tag: u64,
}

impl Place {
    /// That of a hold which is asked for at `now`: its end is rounded up to a multiple of a power of two,
    /// the first one that is half its life or more.
    pub(crate) fn of(hold: &Hold, now: u64) -> Self {
        let life = hold.lasts.as_micros();
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

    /// Whether it ends after `at`, and a state can say when.
    pub(crate) const fn is_after(self, at: u64) -> bool {
        self.until > at && self.until <= MAX_EXACT
    }
}

impl Slots {
    /// The most that a state can have.
    const MAX: usize = 8;
    /// After a restamp a slot ends at most so many microseconds after now.
    const LONGEST_US: u64 = 60_000_000;
    /// For what is held it is a day and what the end of that is rounded up by.
    const LONGEST_HELD_US: u64 = 86_400_000_000 + 68_719_476_736;

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }

    /// The units of all slots.
    pub(crate) fn outstanding(&self) -> u64 {
        self.0.iter().map(|slot| slot.units).sum()
    }

    /// When the first one ends.
    pub(crate) fn first_end(&self) -> Option<u64> {
        self.0.first().map(|slot| slot.until)
    }

    /// Drops those that are over at `at`.
    pub(crate) fn drop_over(&mut self, at: u64) {
        self.0.retain(|slot| slot.until > at);
    }

    /// Makes those end soon that end long after `now`.
    pub(crate) fn restamp(&mut self, now: u64) {
        self.end_within(now, Self::LONGEST_US);
    }

    /// The same of what is held.
    pub(crate) fn restamp_held(&mut self, now: u64) {
        self.end_within(now, Self::LONGEST_HELD_US);
    }

    fn end_within(&mut self, now: u64, longest: u64) {
        for slot in &mut self.0 {
            slot.until = slot.until.min(now + longest);
        }
    }

    /// These and others, as one list.
    pub(crate) fn with(&self, others: &Self) -> Self {
        let mut all: Vec<Slot> = self.0.iter().chain(&others.0).copied().collect();
        all.sort_by_key(|slot| slot.until);
        Self(all)
    }

    /// Holds units until a time: in the slot that ends then, in one of its own, or in the next that ends
    /// later. Says in which; nothing if there is none.
    pub(crate) fn hold(&mut self, Place { until, tag }: Place, units: u64) -> Option<u64> {
        let may_open = self.0.len() < Self::MAX && !self.0.iter().any(|slot| slot.tag == tag);
        let is_fit = |slot: &&mut Slot| slot.until == until || !may_open && slot.until > until;
        if let Some(slot) = self.0.iter_mut().find(is_fit) {
            slot.units += units;
            return Some(slot.tag);
        }
        may_open.then(|| {
            self.add(until, tag, units);
            tag
        })
    }

    /// When the slot of that tag ends, if it has so many units.
    pub(crate) fn end_of(&self, tag: u64, units: u64) -> Option<u64> {
        let own = self.0.iter().find(|slot| slot.tag == tag && slot.units >= units);
        own.map(|slot| slot.until)
    }

    /// Takes units out of the slot of that tag, which has as many.
    pub(crate) fn release(&mut self, tag: u64, units: u64) {
        self.take(tag, units, 0);
    }

    /// Whether a lease of that tag which ends at `until` finds a place.
    pub(crate) fn has_place(&self, until: u64, tag: u64) -> bool {
        let mut own = self.0.iter().filter(|slot| slot.tag == tag).peekable();
        match own.peek() {
            Some(_) => own.all(|slot| slot.until == until),
            None => self.0.len() < Self::MAX,
        }
    }

    /// Adds units to the slot of that tag, which is opened if there is none.
    pub(crate) fn add(&mut self, until: u64, tag: u64, units: u64) {
        if let Some(own) = self.0.iter_mut().find(|slot| slot.tag == tag) {
            own.units += units;
            return;
        }
        let behind = self.0.iter().take_while(|slot| slot.until <= until).count();
        self.0.insert(behind, Slot { until, units, tag });
    }

    /// Takes what is reported out of the slot of that tag, returned units before spent ones. Says
    /// how many were returned, and nothing if nothing changed.
    pub(crate) fn take(&mut self, tag: u64, spent: u64, returned: u64) -> Option<u64> {
        let own = self.0.iter_mut().find(|slot| slot.tag == tag)?;
        let returned = returned.min(own.units);
        let spent = spent.min(own.units - returned);
        own.units -= returned + spent;
        self.0.retain(|slot| slot.units > 0);
        (returned + spent > 0).then_some(returned)
    }
}

/// The first instant from `from` on at which something is so, that stays so once it is; nothing if
/// it never is.
pub(super) fn first_instant(
    from: u64,
    is_so: impl Fn(u64) -> Result<bool, Refusal>,
) -> Result<Option<u64>, Refusal> {
    // What a state can hold has drained by then, however slowly, after the last slot.
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
