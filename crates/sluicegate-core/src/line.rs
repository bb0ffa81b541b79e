//! The reservation queue of a subject and limit: waiting reservations that can be cancelled, and
//! the turns released by cancelled ones. Their stored format:
//!
//! | bytes | a line |
//! | --- | --- |
//! | 7 | the last instant, µs since the epoch |
//! | 1 | the number of turns, which come first in the places that follow; the others are reserved |
//! | … | the places, in the order of their instants |
//!
//! | bytes | a place |
//! | --- | --- |
//! | 7 | when its holder acts, µs since the epoch |
//! | 16 | its id |
//! | 7 | when its holder got it, or when it was released |
//! | 1 | policies that follow, each: |
//! | 4 | its identity, |
//! | 7 | and the units that it was charged |

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::hold::HoldId;
use crate::limit::{Identity, Limit};
use crate::number::MAX_EXACT;
use crate::reader::{Reader, push};

/// The waiting reservations of one subject under one limit that can be cancelled, and the turns
/// released by cancelled ones.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Line {
    reserved: BTreeSet<Place>,
    turns: BTreeSet<Place>,
    /// The heap size of the places, in bytes.
    bytes: usize,
}

/// A queue position: an instant, and the units charged for the request that acts then.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// The name by which the place is found.
    pub name: PlaceName,
    /// The time when its holder got the place, or when it was released, in µs since the epoch. The
    /// place is invalid on a clock that shows an earlier time.
    pub made: u64,
    /// The units charged for each policy.
    pub units: SmallVec<[(Identity, u64); 1]>,
}

/// The name of a queue position.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PlaceName {
    /// When its holder acts, in µs since the epoch.
    pub instant: u64,
    /// The id that its holder chose for it.
    pub id: HoldId,
}

impl PlaceName {
    /// The number of bytes of a stored name.
    pub const BYTES: usize = 7 + HoldId::BYTES;

    /// Returns the instant in 7 bytes, followed by the id.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..7].copy_from_slice(&self.instant.to_be_bytes()[1..]);
        bytes[7..].copy_from_slice(&self.id.to_bytes());
        bytes
    }

    /// Reads a name from its bytes; `None` for an instant beyond the clock's range.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let instant = reader.number()?;
        let id = HoldId::from_bytes(*reader.array()?);
        Some(Self { instant, id })
    }
}

impl Place {
    /// Returns `true` if the place is valid at `now`: its instant is ahead, and no clock has been
    /// set back.
    const fn is_ahead(&self, now: u64) -> bool {
        self.made <= now && now <= self.name.instant
    }

    /// Returns the units charged for a policy.
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
        // A limit has at most 64 policies.
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
    /// The maximum number of turns of one subject under one limit. The earliest are kept.
    pub const TURNS: usize = 64;
    /// The maximum number of places of one subject under one limit, including turns. A reservation
    /// beyond them can't release its turn.
    pub const MOST: usize = 65_536;
    /// The maximum number of past reservations that a new one examines and removes.
    pub const ENDED: usize = 128;
    /// The kind of an entry with a line.
    pub(crate) const KIND: u8 = 0xc8;

    /// Creates a queue with only one turn. For stores that have already found that it will be
    /// taken.
    #[must_use]
    pub(crate) fn of_turn(turn: Place) -> Self {
        let mut line = Self::default();
        line.leave(turn);
        line
    }

    /// Returns `true` if there is neither a waiting reservation nor a turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reserved.is_empty() && self.turns.is_empty()
    }

    /// Returns the last instant, in µs since the epoch; 0 if there is none.
    #[must_use]
    pub fn last_instant(&self) -> u64 {
        let lasts = [self.reserved.last(), self.turns.last()];
        lasts.into_iter().flatten().map(|place| place.name.instant).max().unwrap_or(0)
    }

    /// Takes the first turn within `within` µs that suffices.
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

    /// Keeps a place for its reservation. Returns `false` if the queue is full or the instant is
    /// too late.
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

    /// Removes the place with a name, if exactly one has it. If two reservations share a name, it
    /// is unknown which one is meant.
    pub(crate) fn cancel(&mut self, name: PlaceName) -> Option<Place> {
        let from = Place { name, made: 0, units: SmallVec::new() };
        let mut places = self.reserved.range(from..).take_while(|place| place.name == name);
        let place = places.next().filter(|_| places.next().is_none())?.clone();
        self.reserved.remove(&place);
        self.bytes -= place.heap_bytes();
        Some(place)
    }

    /// Turns a cancelled place into a turn for other callers. Returns `false` if no caller can take
    /// it.
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

    /// Returns the size of the queue on the heap, in bytes, including the struct itself.
    pub(crate) const fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    /// Returns the maximum number of bytes that another place adds to [`Line::heap_bytes`].
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

    /// Decodes places; `None` if they are malformed.
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

/// The size of a place in its set, including the set's own overhead.
const PLACE_BYTES: usize = 2 * size_of::<Place>();
/// The size of each policy's entry in a place with several policies.
const UNITS_BYTES: usize = size_of::<(Identity, u64)>();
