//! The tickets of the waiters for permits of one subject, and their stored format.
//!
//! | bytes | tickets |
//! | --- | --- |
//! | 7 | when the last one ends, µs since the epoch |
//! | … | the tickets, in the order in which they end |
//!
//! | bytes | a ticket |
//! | --- | --- |
//! | 7 | when it ends |
//! | 16 | its id |
//! | 4 | the identity of the policy |
//! | 1 | its priority |
//! | 7 | its number within that priority |
//! | 7 | the units that it waits for |

use std::collections::{BTreeMap, BTreeSet};

use super::Book;
use crate::hold::HoldId;
use crate::kernel::permits::{Permits, Waiting};
use crate::limit::Identity;
use crate::number::MAX_EXACT;
use crate::reader::{Reader, push};

/// The tickets of one subject under one limit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tickets {
    records: BTreeMap<HoldId, TicketRecord>,
    /// The order of the tickets.
    line: BTreeMap<Place, HoldId>,
    /// The end of each ticket.
    ends: BTreeSet<(u64, HoldId)>,
}

/// An empty set of tickets.
pub(crate) static NO_TICKETS: Tickets =
    Tickets { records: BTreeMap::new(), line: BTreeMap::new(), ends: BTreeSet::new() };

/// One ticket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TicketRecord {
    /// The position of the ticket.
    pub(crate) place: Place,
    /// The end of the ticket, in µs since the epoch.
    pub(crate) until: u64,
    /// The units that it waits for.
    pub(crate) units: u64,
}

/// A position in the queue of a policy; earlier positions are less. Tickets are ordered by number,
/// not by time, because a clock can be set back.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) identity: Identity,
    pub(crate) priority: u8,
    pub(crate) number: u64,
}

impl Place {
    /// Returns the position behind all of a priority.
    pub(crate) const fn behind(identity: Identity, priority: u8) -> Self {
        Self { identity, priority, number: u64::MAX }
    }

    const fn front(identity: Identity) -> Self {
        Self { identity, priority: 0, number: 0 }
    }
}

impl Tickets {
    /// The bytes that another ticket adds to [`Tickets::heap_bytes`] at most.
    pub(crate) const GROWTH_BYTES: usize = size_of::<Self>() + TICKET_BYTES;
    /// The maximum number of tickets that are examined.
    pub(crate) const LOOKED_THROUGH: usize = Book::LOOKED_THROUGH;
    /// The kind of an entry with tickets.
    pub(crate) const KIND: u8 = 0xc9;

    /// Returns the ticket of an id, if it is valid at `now`.
    pub(crate) fn get(&self, id: HoldId, now: u64) -> Option<&TicketRecord> {
        self.records.get(&id).filter(|record| record.until > now)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the time when the last ticket ends, in µs since the epoch; 0 if there is none.
    pub(crate) fn last_end(&self) -> u64 {
        self.ends.last().map_or(0, |(until, _)| *until)
    }

    /// Returns the number of tickets that are valid at `now`.
    pub(crate) fn live(&self, now: u64) -> usize {
        let ended = self.ends.iter().take_while(|(until, _)| *until <= now).count();
        self.records.len() - ended
    }

    /// Returns the units for which all tickets wait, and those ahead of a position.
    ///
    /// `own` is the requester's ticket. Counting stops once the units ahead are more than the free
    /// ones.
    pub(crate) fn waiting(
        &self,
        free: u64,
        now: u64,
        place: Place,
        own: Option<HoldId>,
    ) -> Waiting {
        let ended = self.ended(now);
        let others = self.of(place.identity).filter(|(_, id)| Some(**id) != own);
        let mut waiting = Waiting::default();
        let live = others.filter(|(_, id)| !ended.contains(id));
        for (passed, (other, id)) in live.enumerate() {
            let units = if passed == Self::LOOKED_THROUGH { free + 1 } else { self.units_of(*id) };
            waiting.others += units;
            if *other < place {
                waiting.ahead += units;
            }
            if waiting.others > free {
                break;
            }
        }
        if waiting.others > 0 {
            let latest = self.ends.iter().rev().take(Self::LOOKED_THROUGH);
            let mut latest = latest.filter(|(_, id)| Some(*id) != own);
            let last = latest.clone().find(|(_, id)| self.is_of(*id, place.identity));
            waiting.others_end = last.or(latest.next()).map_or(0, |(until, _)| *until);
        }
        let own = own.and_then(|own| self.get(own, now));
        // The ticket may be in another queue, of an earlier configuration.
        if let Some(record) = own.filter(|own| own.place.identity == place.identity) {
            (waiting.own, waiting.own_end) = (record.units, record.until);
        }
        waiting
    }

    /// Returns the number of tickets ahead of a position, up to the counting limit.
    pub(crate) fn ahead_of(&self, place: Place) -> u64 {
        let before = self.of(place.identity).take_while(|(other, _)| **other < place);
        before.take(Self::LOOKED_THROUGH).count() as u64
    }

    /// Returns `true` if another ticket of a policy fits into a queue of this length.
    pub(crate) fn has_room(&self, identity: Identity, length: u64, now: u64) -> bool {
        let ended = self.ended(now);
        let ended = ended.iter().filter(|id| self.is_of(**id, identity)).count();
        // Counting further than this maximum isn't needed.
        let most = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(ended);
        self.of(identity).take(most).count() < most
    }

    /// Returns the position of a new ticket.
    pub(crate) fn last_place(&self, identity: Identity, priority: u8) -> Place {
        let range = Place { identity, priority, number: 0 }..=Place::behind(identity, priority);
        let last = self.line.range(range).next_back();
        let number = last.map_or(0, |(place, _)| place.number) + 1;
        Place { identity, priority, number }
    }

    /// Adds a ticket, and replaces the one with its id, if there is any.
    pub(crate) fn put(&mut self, id: HoldId, record: TicketRecord) {
        self.remove(id);
        self.line.insert(record.place, id);
        self.ends.insert((record.until, id));
        self.records.insert(id, record);
    }

    /// Removes the ticket of an id, and returns `true` if there was one.
    pub(crate) fn remove(&mut self, id: HoldId) -> bool {
        let Some(record) = self.records.remove(&id) else { return false };
        self.line.remove(&record.place);
        self.ends.remove(&(record.until, id));
        true
    }

    /// Removes expired tickets.
    pub(crate) fn remove_ended(&mut self, now: u64) {
        for id in self.ended(now) {
            self.remove(id);
        }
    }

    /// Returns the tickets that have enough free units, in their order.
    pub(crate) fn called(
        &self,
        permits: &Permits,
        identity: Identity,
        in_flight: u64,
        now: u64,
    ) -> Vec<HoldId> {
        let mut free = permits.free(in_flight);
        let ended = self.ended(now);
        let live = self.of(identity).filter(|(_, id)| !ended.contains(id));
        let fits = live.take(Self::LOOKED_THROUGH).map_while(|(_, id)| {
            free = free.checked_sub(self.units_of(*id))?;
            Some(*id)
        });
        fits.collect()
    }

    /// Returns the size on the heap, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.records.len() * TICKET_BYTES
    }

    /// Encodes the tickets.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, self.last_end());
        for (until, id) in &self.ends {
            let Some(record) = self.records.get(id) else { continue };
            push(&mut bytes, *until);
            bytes.extend_from_slice(&id.to_bytes());
            bytes.extend_from_slice(&record.place.identity.to_bytes());
            bytes.push(record.place.priority);
            push(&mut bytes, record.place.number);
            push(&mut bytes, record.units);
        }
        bytes
    }

    /// Decodes tickets; `None` if they are malformed.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let _last = reader.number()?;
        let mut tickets = Self::default();
        while !reader.0.is_empty() {
            let until = reader.number()?;
            let id = HoldId::from_bytes(*reader.array()?);
            let identity = Identity::from_bytes(*reader.array()?);
            let [priority] = *reader.array()?;
            let (number, units) = (reader.number()?, reader.number()?);
            let place = Place { identity, priority, number };
            tickets.put(id, TicketRecord { place, until, units });
        }
        Some(tickets)
    }

    fn of(&self, identity: Identity) -> impl Iterator<Item = (&Place, &HoldId)> {
        let range = Place::front(identity)..=Place::behind(identity, u8::MAX);
        self.line.range(range)
    }

    fn is_of(&self, id: HoldId, identity: Identity) -> bool {
        self.records.get(&id).is_some_and(|record| record.place.identity == identity)
    }

    fn units_of(&self, id: HoldId) -> u64 {
        self.records.get(&id).map_or(0, |record| record.units.min(MAX_EXACT))
    }

    /// Returns `true` if there may be more expired tickets than one request examines.
    pub(crate) fn ended_are_many(&self, now: u64) -> bool {
        self.ends.iter().nth(Book::ENDED - 1).is_some_and(|(until, _)| *until <= now)
    }

    /// Returns the first expired tickets, at most [`Book::ENDED`].
    fn ended(&self, now: u64) -> BTreeSet<HoldId> {
        let ends = self.ends.iter().take(Book::ENDED).take_while(|(until, _)| *until <= now);
        ends.map(|(_, id)| *id).collect()
    }
}

/// The size of a ticket in the three collections, including their own overhead.
const TICKET_BYTES: usize = 2
    * (size_of::<(HoldId, TicketRecord)>()
        + size_of::<(Place, HoldId)>()
        + size_of::<(u64, HoldId)>());

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDENTITY: Identity = Identity::from_bytes([1, 2, 3, 4]);

    fn id(number: u64) -> HoldId {
        HoldId::from_bytes(u128::from(number).to_be_bytes())
    }

    /// Creates `count` tickets for one unit each, which end one after the other.
    fn line(count: u64) -> Tickets {
        let mut tickets = Tickets::default();
        for number in 1..=count {
            let place = tickets.last_place(IDENTITY, 0);
            tickets.put(id(number), TicketRecord { place, until: 1_000 + number, units: 1 });
        }
        tickets
    }

    #[test]
    fn no_more_is_looked_at_than_shows_that_too_few_are_free_and_never_more_than_a_bound() {
        let tickets = line(3_000);
        let plain = Place::behind(IDENTITY, u8::MAX);
        let waiting = |free| tickets.waiting(free, 1_000, plain, None);
        for free in [0, 1, 900, 1_023] {
            assert_eq!(waiting(free).ahead, free + 1, "{free} are free");
        }
        // A waiter behind the counting limit is refused, regardless of the free units.
        assert!(waiting(60_000).ahead > 60_000);
        let at = |number| tickets.records[&id(number)].place;
        let ahead = |number| tickets.waiting(60_000, 1_000, at(number), Some(id(number))).ahead;
        assert_eq!([ahead(1), ahead(2), ahead(1_000)], [0, 1, 999]);
        assert!(ahead(2_000) > 60_000);
        assert_eq!([tickets.ahead_of(at(1_000)), tickets.ahead_of(at(2_000))], [999, 1_024]);
    }

    #[test]
    fn what_has_ended_is_passed_over_and_removed_a_bounded_number_at_a_time() {
        let mut tickets = line(40);
        let plain = Place::behind(IDENTITY, u8::MAX);
        // All tickets have ended, and the examined ones don't count.
        let others = 40 - Book::ENDED as u64;
        assert_eq!(tickets.waiting(1_000, 5_000, plain, None).others, others);
        assert!(
            tickets.has_room(IDENTITY, others + 1, 5_000)
                && !tickets.has_room(IDENTITY, others, 5_000)
        );
        tickets.remove_ended(5_000);
        assert_eq!(tickets.waiting(1_000, 5_000, plain, None).others, 0);
        tickets.remove_ended(5_000);
        assert!(tickets.is_empty() && tickets.last_end() == 0);
    }

    #[test]
    fn those_are_called_who_fit_one_after_the_other() {
        let mut tickets = Tickets::default();
        for (number, units) in [(1, 2), (2, 3), (3, 1)] {
            let place = tickets.last_place(IDENTITY, 0);
            tickets.put(id(number), TicketRecord { place, until: 9, units });
        }
        let permits = Permits::new(6, crate::time::Span::SECOND, None).unwrap();
        let called = |in_flight| tickets.called(&permits, IDENTITY, in_flight, 0);
        assert_eq!(called(5), []);
        assert_eq!(called(4), [id(1)]);
        // No ticket overtakes the second one, though there is enough for the third.
        assert_eq!(called(2), [id(1)]);
        assert_eq!(called(0), [id(1), id(2), id(3)]);
    }

    proptest! {
        #[test]
        fn tickets_read_back_from_their_bytes(
            all in prop::collection::vec((0..9_u64, 0..16_u8, 1..MAX_EXACT, 1..99_u64), 0..9),
        ) {
            let mut tickets = Tickets::default();
            for (number, priority, until, units) in all {
                let place = tickets.last_place(IDENTITY, priority);
                tickets.put(id(number), TicketRecord { place, until, units });
            }
            prop_assert_eq!(Tickets::read(&tickets.write()), Some(tickets));
        }

        #[test]
        fn any_bytes_are_tickets_or_none(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = Tickets::read(&bytes);
        }
    }
}
