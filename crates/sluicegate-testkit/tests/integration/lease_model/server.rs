//! The server's side of the protocol: the state of one key, and what a call makes of it.

use crate::lease_model::model::{Defect, Model, SLOTS};

/// The state of one key with one token bucket.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Server {
    /// The newest time that was written.
    pub(crate) newest: i8,
    /// In ticks, as it was at that time.
    pub(crate) deficit: i8,
    /// By expiry, those without units last.
    pub(crate) slots: [Slot; SLOTS],
}

/// Units that are outstanding until a time on the grid. Without units it is free.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Slot {
    pub(crate) expiry: i8,
    pub(crate) units: i8,
    name: Name,
}

/// How reports and leases name a slot.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Name {
    /// When the slot was to expire when it was opened.
    pub(crate) expiry: i8,
    /// What makes the name differ from every other that is known anywhere, even after the clock
    /// has stepped back. It stands for bits drawn at random.
    pub(crate) tag: i8,
}

/// What a holder has done with units of a slot since its last report.
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
    /// How many points of the grid ahead.
    pub(crate) span: i8,
}

/// What a grant says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) name: Name,
    /// The time from now to the expiry.
    pub(crate) left: i8,
    /// Whether the slot had units before.
    pub(crate) is_shared: bool,
}

/// Why nothing is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Capacity,
    Slots,
}

const FREE: Slot = Slot { expiry: i8::MAX, units: 0, name: Name { expiry: i8::MAX, tag: 0 } };
/// Before all times that a clock shows.
const NEVER: i8 = -16;

impl Server {
    pub(crate) const FRESH: Self = Self { newest: NEVER, deficit: 0, slots: [FREE; SLOTS] };

    /// Units that are outstanding.
    pub(crate) fn outstanding(&self) -> i8 {
        self.slots.iter().map(|slot| slot.units).sum()
    }

    /// The live slot of that name.
    pub(crate) fn slot(&self, name: Name) -> Option<Slot> {
        self.live_slots().find(|slot| slot.name == name)
    }

    /// The slots that have units.
    pub(crate) fn live_slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.into_iter().filter(|slot| slot.units > 0)
    }

    /// The names of live slots.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        self.live_slots().map(|slot| slot.name)
    }

    /// Whether a key that is gone would be judged alike.
    pub(crate) fn is_fresh(&self) -> bool {
        self.deficit == 0 && self.slots == [FREE; SLOTS]
    }

    /// The expiry of what is granted now.
    pub(crate) fn expiry(&self, model: &Model, ask: Ask) -> i8 {
        (self.newest.div_euclid(model.width) + ask.span) * model.width
    }

    /// Brings the state to what the server's clock shows, piece by piece across the expiries
    /// passed, and says whether that took a restamp.
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

    /// Charges one unit, if it is there. The state was brought to now.
    pub(crate) fn charge(&mut self, model: &Model) -> bool {
        let is_admitted = self.deficit + model.price <= model.full();
        if is_admitted {
            self.deficit += model.price;
        }
        is_admitted
    }

    /// Counts a report, if its slot is live. The state was brought to now.
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

    /// Takes all the units asked for, or none. A slot that it opens has the tag. The state was
    /// brought to now.
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

    /// Gives back units without an id: never those that are outstanding. Brought to now.
    pub(crate) fn refund(&mut self, model: &Model, units: i8) {
        let least = self.outstanding() * model.price;
        self.deficit = (self.deficit - units * model.price).max(least);
    }

    /// Forgets what was charged, but not what is outstanding. Brought to now.
    pub(crate) fn reset(&mut self, model: &Model) {
        self.deficit = self.outstanding() * model.price;
    }

    /// No expiry stays further ahead than the longest span, up to the next point of the grid: the
    /// leases end before.
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

    /// A slot all of whose units were reported can be had by the next grant.
    fn free_empty(&mut self) {
        for slot in &mut self.slots {
            if slot.units == 0 {
                *slot = FREE;
            }
        }
        self.slots.sort_unstable();
    }
}

/// So it makes no difference when a state is brought to now, as the search takes for granted.
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
