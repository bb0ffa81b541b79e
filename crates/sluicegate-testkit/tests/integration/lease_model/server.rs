//! The server's side of the protocol: the state of one key, and the effect of calls.

use crate::lease_model::model::{Defect, Model, SLOTS};

/// The state of one key with one token bucket.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Server {
    /// The newest written time.
    pub(crate) newest: i8,
    /// The deficit in ticks at that time.
    pub(crate) deficit: i8,
    /// The slots by expiry; those without units come last.
    pub(crate) slots: [Slot; SLOTS],
}

/// Units that are outstanding until a time on the grid. A slot without units is free.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Slot {
    pub(crate) expiry: i8,
    pub(crate) units: i8,
    name: Name,
}

/// The name of a slot in reports and leases.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Name {
    /// The slot's expiry at its opening.
    pub(crate) expiry: i8,
    /// Makes the name different from every other known name, even after the clock has stepped back.
    /// It represents random bits.
    pub(crate) tag: i8,
}

/// The spent and returned units of a slot since the holder's last report.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Report {
    pub(crate) name: Name,
    pub(crate) spent: i8,
    pub(crate) returned: i8,
}

/// A request for units.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Ask {
    pub(crate) units: i8,
    /// The number of grid points ahead.
    pub(crate) span: i8,
}

/// A granted lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) name: Name,
    /// Time from now to the expiry.
    pub(crate) left: i8,
    /// Whether the slot had units before.
    pub(crate) is_shared: bool,
}

/// The reason why nothing is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Capacity,
    Slots,
}

const FREE: Slot = Slot { expiry: i8::MAX, units: 0, name: Name { expiry: i8::MAX, tag: 0 } };
/// A time before every time that a clock shows.
const NEVER: i8 = -16;

impl Server {
    pub(crate) const FRESH: Self = Self { newest: NEVER, deficit: 0, slots: [FREE; SLOTS] };

    /// Returns the outstanding units.
    pub(crate) fn outstanding(&self) -> i8 {
        self.slots.iter().map(|slot| slot.units).sum()
    }

    /// Returns the live slot with this name.
    pub(crate) fn slot(&self, name: Name) -> Option<Slot> {
        self.live_slots().find(|slot| slot.name == name)
    }

    /// Returns the slots with units.
    pub(crate) fn live_slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.into_iter().filter(|slot| slot.units > 0)
    }

    /// Returns the names of live slots.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        self.live_slots().map(|slot| slot.name)
    }

    /// Returns `true` if a missing key would behave identically.
    pub(crate) fn is_fresh(&self) -> bool {
        self.deficit == 0 && self.slots == [FREE; SLOTS]
    }

    /// Returns the expiry of a grant made now.
    pub(crate) fn expiry(&self, model: &Model, ask: Ask) -> i8 {
        (self.newest.div_euclid(model.width) + ask.span) * model.width
    }

    /// Brings the state to the server's clock, step by step across the passed expiries. Returns
    /// whether it was restamped.
    pub(crate) fn bring(&mut self, model: &Model, clock: i8) -> bool {
        let is_ahead = self.newest.saturating_sub(clock) > model.max_clock_back;
        if is_ahead {
            self.restamp(model, clock);
        }
        let now = self.newest.max(clock);
        while self.slots[0].expiry <= now && !model.has(Defect::NeverExpires) {
            if !model.has(Defect::DrainInOnePiece) {
                self.drain(model, self.slots[0].expiry);
            }
            if model.has(Defect::CreditAtExpiry) {
                self.deficit -= self.slots[0].units * model.price;
            }
            self.slots[0] = FREE;
            self.slots.sort_unstable();
        }
        self.drain(model, now);
        is_ahead
    }

    /// Charges one unit, if it is free. The state must have been brought to now.
    pub(crate) fn charge(&mut self, model: &Model) -> bool {
        let is_admitted = self.deficit + model.price <= model.full();
        if is_admitted {
            self.deficit += model.price;
        }
        is_admitted
    }

    /// Counts a report, if its slot is live. The state must have been brought to now.
    pub(crate) fn report(&mut self, model: &Model, report: Report) -> bool {
        let credit = report.returned * model.price;
        match self.named(model, report.name) {
            Some(slot) => {
                slot.units = (slot.units - report.spent - report.returned).max(0);
                self.free_empty();
                self.deficit = (self.deficit - credit).max(0);
                true
            }
            None if model.has(Defect::ReturnAfterExpiry) && credit > 0 => {
                self.deficit = (self.deficit - credit).max(self.outstanding() * model.price);
                true
            }
            None => false,
        }
    }

    /// Takes all requested units, or none. A slot that it opens gets the tag. The state must have
    /// been brought to now.
    pub(crate) fn grant(&mut self, model: &Model, ask: Ask, tag: i8) -> Result<Grant, Refusal> {
        let expiry = self.expiry(model, ask);
        if self.deficit + ask.units * model.price > model.full() {
            return Err(Refusal::Capacity);
        }
        let slots = &mut self.slots[..model.slots];
        let is_same = |slot: &Slot| slot.expiry == expiry;
        let place = slots.iter().position(is_same).or(slots.iter().position(|slot| *slot == FREE));
        let slot = &mut slots[place.ok_or(Refusal::Slots)?];
        let is_shared = slot.units > 0;
        let name = if is_shared { slot.name } else { Name { expiry, tag } };
        *slot = Slot { expiry, units: slot.units + ask.units, name };
        self.slots.sort_unstable();
        self.deficit += ask.units * model.price;
        Ok(Grant { name, left: expiry - self.newest, is_shared })
    }

    /// Gives back units without an id, but never outstanding ones. The state must have been brought
    /// to now.
    pub(crate) fn refund(&mut self, model: &Model, units: i8) {
        let least = self.outstanding() * model.price;
        self.deficit = (self.deficit - units * model.price).max(least);
    }

    /// Resets the charges, but not the outstanding units. The state must have been brought to now.
    pub(crate) fn reset(&mut self, model: &Model) {
        self.deficit = self.outstanding() * model.price;
    }

    /// Limits all expiries to the longest span from now, rounded up to a grid point. The leases end
    /// before that.
    fn restamp(&mut self, model: &Model, clock: i8) {
        let latest = clock + model.longest_span();
        let up = if model.has(Defect::RestampRoundsDown) { 0 } else { model.width - 1 };
        let latest = (latest + up).div_euclid(model.width) * model.width;
        for slot in self.slots.iter_mut().filter(|slot| slot.units > 0) {
            slot.expiry = slot.expiry.min(latest);
        }
        self.slots.sort_unstable();
        self.newest = clock;
    }

    fn drain(&mut self, model: &Model, until: i8) {
        let least = if model.has(Defect::DrainBelowOutstanding) { 0 } else { self.outstanding() };
        let drained = self.deficit - model.refill * (until - self.newest);
        self.deficit = drained.max(least * model.price);
        self.newest = until;
    }

    fn named(&mut self, model: &Model, name: Name) -> Option<&mut Slot> {
        let places = i8::try_from(model.slots).unwrap();
        let place = |expiry: i8| expiry.div_euclid(model.width).rem_euclid(places);
        self.slots.iter_mut().filter(|slot| slot.units > 0).find(|slot| {
            if model.has(Defect::SlotNamedByPlace) {
                place(slot.expiry) == place(name.expiry)
            } else {
                slot.name == name
            }
        })
    }

    /// Frees the slots whose units were all reported, for the next grant.
    fn free_empty(&mut self) {
        for slot in &mut self.slots {
            if slot.units == 0 {
                *slot = FREE;
            }
        }
        self.slots.sort_unstable();
    }
}

/// Tests that it doesn't matter when a state is brought to now, as the search assumes.
#[test]
fn a_state_is_brought_to_now_in_one_piece_or_in_many() {
    let model = Model { price: 3, refill: 2, ..Model::RACE };
    let name = |expiry| Name { expiry, tag: 0 };
    let slot = |expiry, units| Slot { expiry, units, name: name(expiry) };
    let mut pinned = 0;
    for deficit in 0..20 {
        for slots in [[slot(2, 1), slot(4, 2)], [slot(2, 3), FREE], [FREE, FREE]] {
            let server = Server { newest: 0, deficit, slots };
            if deficit < server.outstanding() * model.price {
                continue;
            }
            for (between, end) in
                (0..9).flat_map(|between| (between..9).map(move |end| (between, end)))
            {
                let (mut whole, mut pieces) = (server, server);
                whole.bring(&model, end);
                pieces.bring(&model, between);
                pieces.bring(&model, end);
                assert_eq!(whole, pieces, "{server:?}, {between}, {end}");
                pinned += u32::from(whole.deficit > deficit - model.refill * end);
            }
        }
    }
    assert!(pinned > 0);
}
