//! Who waits under one subject and limit: reservations that can be cancelled, and the turns that cancelled
//! ones have left for others. Their stored format:
//!
//! | bytes | a line |
//! | --- | --- |
//! | 7 | the last instant, µs since the epoch |
//! | 1 | how many of the places that follow are turns; the others are reserved |
//! | … | the places, in the order of their instants |
//!
//! | bytes | a place |
//! | --- | --- |
//! | 7 | when its holder acts, µs since the epoch |
//! | 16 | its id |
//! | 7 | when it was given to its holder, or was left |
//! | 1 | policies that follow, each: |
//! | 4 | its identity, |
//! | 7 | and the units that it was charged |

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::hold::HoldId;
use crate::limit::{Identity, Limit};
use crate::number::MAX_EXACT;
use crate::reader::{Reader, push};

/// The reservations of one subject under one limit that wait and can be cancelled, and the turns that
/// cancelled ones have left.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Line {
    reserved: BTreeSet<Place>,
    turns: BTreeSet<Place>,
    /// What the places have on the heap.
    bytes: usize,
}

/// A place in line: an instant, and the units that have been charged for whoever acts then.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// What the place is found by.
    pub name: PlaceName,
    /// When it was given to its holder, or was left, in µs since the epoch: by a clock that shows an earlier
    /// time it is nobody's.
    pub made: u64,
    /// What was charged of each policy.
    pub units: SmallVec<[(Identity, u64); 1]>,
}

/// What a place in line is found by.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PlaceName {
    /// When its holder acts, in µs since the epoch.
    pub instant: u64,
    /// What whoever reserved it called it.
    pub id: HoldId,
}

impl PlaceName {
    /// How many bytes a name has where it is stored.
    pub const BYTES: usize = 7 + HoldId::BYTES;

    /// The instant in 7 bytes, and the id.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..7].copy_from_slice(&self.instant.to_be_bytes()[1..]);
        bytes[7..].copy_from_slice(&self.id.to_bytes());
        bytes
    }

    /// The name that these bytes are; `None` for an instant that no clock shows.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let instant = reader.number()?;
        let id = HoldId::from_bytes(*reader.array()?);
        Some(Self { instant, id })
    }
}

impl Place {
    /// Whether it is somebody's at `now`: its instant is ahead, and no clock has been set back.
    const fn is_ahead(&self, now: u64) -> bool {
        self.made <= now && now <= self.name.instant
    }

    /// The units that a policy was charged.
    pub(crate) fn units_of(&self, identity: Identity) -> u64 {
        self.units.iter().find(|(other, _)| *other == identity).map_or(0, |(_, units)| *units)
    }

    fn heap_bytes(&self) -> usize {
        let spilled = Some(self.units.len()).filter(|policies| *policies > 1).unwrap_or(0);
        PLACE_BYTES + spilled * UNITS_BYTES
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.name.to_bytes());
        push(bytes, self.made);
        // A limit has 64 policies at most.
        bytes.push(u8::try_from(self.units.len()).unwrap_or(u8::MAX));
        for (identity, units) in &self.units {
            bytes.extend_from_slice(&identity.to_bytes());
            push(bytes, *units);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let name = PlaceName::from_bytes(reader.array()?)?;
        let made = reader.number()?;
        let [policies] = *reader.array()?;
        let units = (0..policies).map(|_| {
            let identity = Identity::from_bytes(*reader.array()?);
            Some((identity, reader.number()?))
        });
        Some(Self { name, made, units: units.collect::<Option<_>>()? })
    }
}

impl Line {
    /// The most turns of one subject under one limit. Of more the soonest are kept.
    pub const TURNS: usize = 64;
    /// The most places of one subject under one limit, turns among them: whoever reserves beyond them can't
    /// leave a turn.
    pub const MOST: usize = 65_536;
    /// How many reservations whose instant has passed are looked at, and removed by a new one.
    pub const ENDED: usize = 128;
    /// The kind of an entry with a line.
    pub(crate) const KIND: u8 = 0xc8;

    /// A line with nothing but one turn. For stores that have found out that it is to be taken.
    #[must_use]
    pub(crate) fn of_turn(turn: Place) -> Self {
        let mut line = Self::default();
        line.leave(turn);
        line
    }

    /// Whether nobody waits and nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reserved.is_empty() && self.turns.is_empty()
    }

    /// The last instant, in µs since the epoch; 0 if there is none.
    #[must_use]
    pub fn last_instant(&self) -> u64 {
        let lasts = [self.reserved.last(), self.turns.last()];
        lasts.into_iter().flatten().map(|place| place.name.instant).max().unwrap_or(0)
    }

    /// Takes the first turn that comes within so many µs and suffices.
    pub(crate) fn take(
        &mut self,
        now: u64,
        within: u64,
        suffices: impl Fn(&Place) -> bool,
    ) -> Option<Place> {
        let last = now.saturating_add(within);
        let mut turns = self.turns.iter().take_while(|turn| turn.name.instant <= last);
        let turn = turns.find(|turn| turn.is_ahead(now) && suffices(turn))?.clone();
        self.turns.remove(&turn);
        self.bytes -= turn.heap_bytes();
        Some(turn)
    }

    /// Keeps a place for who reserved it; whether there was room.
    pub(crate) fn keep(&mut self, place: Place) -> bool {
        let now = place.made;
        let passed = |place: &&Place| place.name.instant < now;
        let ended = self.reserved.iter().take(Self::ENDED).take_while(passed).count();
        let others = self.reserved.len() + self.turns.len() - ended;
        if others >= Self::MOST || place.name.instant > MAX_EXACT {
            return false;
        }
        for _ in 0..ended {
            self.bytes -= self.reserved.pop_first().map_or(0, |gone| gone.heap_bytes());
        }
        self.reserve(place);
        true
    }

    /// Removes the place that was reserved under a name, if there is exactly one: who calls two alike can't
    /// say which it means.
    pub(crate) fn cancel(&mut self, name: PlaceName) -> Option<Place> {
        let from = Place { name, made: 0, units: SmallVec::new() };
        let mut places = self.reserved.range(from..).take_while(|place| place.name == name);
        let place = places.next().filter(|_| places.next().is_none())?.clone();
        self.reserved.remove(&place);
        self.bytes -= place.heap_bytes();
        Some(place)
    }

    /// Leaves a cancelled place as a turn for others; whether anybody may come to take it.
    pub(crate) fn hand_on(&mut self, place: Place, now: u64) -> bool {
        while self.turns.first().is_some_and(|turn| turn.name.instant < now) {
            self.bytes -= self.turns.pop_first().map_or(0, |gone| gone.heap_bytes());
        }
        if !place.is_ahead(now) {
            return false;
        }
        let turn = Place { made: now, ..place };
        if self.turns.len() >= Self::TURNS {
            if self.turns.last().is_none_or(|last| *last <= turn) {
                return false;
            }
            self.bytes -= self.turns.pop_last().map_or(0, |gone| gone.heap_bytes());
        }
        self.leave(turn);
        true
    }

    fn reserve(&mut self, place: Place) {
        let bytes = place.heap_bytes();
        if self.reserved.insert(place) {
            self.bytes += bytes;
        }
    }

    fn leave(&mut self, turn: Place) {
        let bytes = turn.heap_bytes();
        if self.turns.insert(turn) {
            self.bytes += bytes;
        }
    }

    /// The bytes that it takes on the heap, itself among them.
    pub(crate) const fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    /// The bytes that another place adds to those at most.
    pub(crate) const fn growth_bytes() -> usize {
        size_of::<Self>() + PLACE_BYTES + Limit::MAX_POLICIES * UNITS_BYTES
    }

    /// Encodes the places.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, self.last_instant());
        bytes.push(u8::try_from(self.turns.len()).unwrap_or(u8::MAX));
        self.turns.iter().chain(&self.reserved).for_each(|place| place.write(&mut bytes));
        bytes
    }

    /// Decodes places; `None` if they make no sense.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let _last = reader.number()?;
        let [turns] = *reader.array()?;
        let mut line = Self::default();
        for _ in 0..turns {
            line.leave(Place::read(&mut reader)?);
        }
        while !reader.0.is_empty() {
            line.reserve(Place::read(&mut reader)?);
        }
        Some(line)
    }
}

/// What a place takes in its set, with the set's own.
const PLACE_BYTES: usize = 2 * size_of::<Place>();
/// What it takes for each policy, if there are several.
const UNITS_BYTES: usize = size_of::<(Identity, u64)>();
