//! The records of what is held of one subject, and their stored format; and beside them what is remembered
//! of requests that had an id, and who waits.
//!
//! | bytes | a book |
//! | --- | --- |
//! | 7 | when the last record ends, µs since the epoch |
//! | … | the records, in the order in which they end |
//!
//! | bytes | a record |
//! | --- | --- |
//! | 7 | when it ends |
//! | 16 | its id |
//! | 1 | 1 if it was settled, 2 if it is given back at its end, else 0 |
//! | 1 | policies that follow |
//! | 4 | each: its identity; of a settled record 7 bytes more: what was given back, or 2^53 for nothing that was to be |
//! | 35 | of a live one: units, their time of judgement, a bucket's unit and refill, and the tag of the slot they are in, or 2^53 for none |
//! | 2, … | and the numbers of the state as the request left it, after their length, |
//! | 2, … | and as the request found it; both empty where they are of no use |

mod listed;
mod records;
pub(crate) mod tickets;

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::ban::{Ban, BanState};
use crate::decision::Decision;
use crate::hold::HoldId;
use crate::kernel::permits::{self, Permits, Waiting};
use crate::kernel::{ID_BYTES, NUMBER_BYTES, Rule};
use crate::limit::{Identity, Limit, Member};
use crate::line::{Line, Place};
use crate::number::MAX_EXACT;
use crate::on_expiry::OnExpiry;
use crate::repeats::Repeats;
use records::Records;
use tickets::{NO_TICKETS, Tickets};

/// The records of what is held of one subject under one limit, of its requests that had an id, and who waits
/// in its line and for permits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Book {
    records: Records,
    /// What the records have on the heap themselves.
    bytes: usize,
    /// The units that are held of each policy, and were not settled.
    units: SmallVec<[(Identity, u64); 2]>,
    pub(crate) repeats: Repeats,
    /// The subject's denials and bans.
    ban: Option<Box<BanEntry>>,
    /// Kept beside them, in an entry of its own.
    pub(crate) line: Line,
    /// Who waits for permits.
    tickets: Option<Box<Tickets>>,
    /// What is to be returned.
    returns: Option<Box<Returns>>,
}

/// What a book has that is to be returned.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Returns {
    /// In the order in which they end.
    records: BTreeSet<(u64, HoldId)>,
    /// Until when that is of use.
    until: u64,
}

/// What a place among those takes on the heap at most, in nodes that are half full at least.
const RETURN_BYTES: usize = 2 * size_of::<(u64, HoldId)>() + size_of::<usize>();

/// What is known of a subject's denials and bans.
#[derive(Clone, Debug, Eq, PartialEq)]
struct BanEntry {
    state: BanState,
    /// Until when that is of use.
    until: u64,
}

/// What one request holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HoldRecord {
    /// When the record ends, in µs since the epoch.
    pub until: u64,
    /// Whether what it holds is given back if it ends without being settled.
    pub returns: bool,
    /// What the policies were charged, or what was given back.
    pub content: RecordContent,
}

/// What a record says of the policies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RecordContent {
    /// What each of those was charged that were charged anything.
    Live(SmallVec<[HeldUnits; 1]>),
    /// What each of them gave back when the record was settled; `None` for those that were not to.
    Settled(Vec<(Identity, Option<u64>)>),
}

/// What one policy was charged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeldUnits {
    /// The policy.
    pub identity: Identity,
    /// How many units.
    pub units: u64,
    /// When, in µs since the epoch.
    pub at: u64,
    /// What a unit came to then, in ticks, and how many ticks flow back in a µs; of a bucket alone.
    pub flow: Option<(u64, u64)>,
    /// The tag of the [slot](crate::kernel::Bound) that the units are in; of a bucket alone, and `None`
    /// if they found no place in any.
    pub slot: Option<u64>,
    /// The numbers of the state as the charge left it and as it found it, as they are stored; empty for
    /// none. `None` where they may be many, or are of no use: then a state never counts as unchanged.
    pub states: Option<Box<(Vec<u8>, Vec<u8>)>>,
}

impl Book {
    /// The most records of one subject under one limit, settled ones too.
    pub const MOST: usize = 65_536;
    /// How many records that have ended are looked at, and removed by a new one, or for whoever is denied while
    /// there are more. Others count as if they had not ended.
    pub const ENDED: usize = 24;
    /// How many records of a subject that have ended are returned by one request at most: each costs as much as
    /// settling it.
    pub const RETURNED: usize = 16;
    /// How many records are looked through for when units end.
    pub const LOOKED_THROUGH: usize = 1_024;
    /// The kind of an entry with a book.
    pub(crate) const KIND: u8 = 0xc2;
    /// The identity under which it is kept, beside those of policies.
    pub const IDENTITY: Identity = Identity::from_bytes([0; ID_BYTES - 1]);

    /// The record of an id, if it lives at `now`.
    #[must_use]
    pub fn get(&self, id: HoldId, now: u64) -> Option<&HoldRecord> {
        self.records.get(id).filter(|record| record.until > now)
    }

    /// A book that has no record, but one turn to be taken.
    #[must_use]
    pub fn of_turn(turn: Place) -> Self {
        Self { line: Line::of_turn(turn), ..Self::default() }
    }

    /// Whether there is no record, nobody was denied or banned, nobody is in line, and nobody waits for
    /// permits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_records()
            && self.ban.is_none()
            && self.repeats.is_empty()
            && self.line.is_empty()
            && self.tickets.is_none()
    }

    /// Whether any request is known by its id.
    #[must_use]
    pub fn has_repeats(&self) -> bool {
        !self.repeats.is_empty()
    }

    /// Whether anything is held.
    pub(crate) fn has_records(&self) -> bool {
        self.records.len() > 0
    }

    /// When the last of it ends, in µs since the epoch; 0 if there is nothing.
    #[must_use]
    pub fn last_end(&self) -> u64 {
        let ban = self.ban.as_ref().map_or(0, |ban| ban.until);
        // An instant is somebody's until it has passed.
        let passed = if self.line.is_empty() { 0 } else { self.line.last_instant() + 1 };
        let tickets = self.tickets().last_end();
        let ends = [ban, self.repeats.last_end(), passed, tickets, self.returns_until()];
        ends.into_iter().fold(self.last_record_end(), u64::max)
    }

    fn last_record_end(&self) -> u64 {
        self.records.iter().next_back().map_or(0, |(_, record)| record.until)
    }

    /// A book without records, of a subject with these denials and bans. For stores that keep those by
    /// themselves.
    #[must_use]
    pub fn of_ban(state: Option<BanState>) -> Self {
        let entry = |state: BanState| BanEntry { until: state.until, state };
        Self { ban: state.map(entry).map(Box::new), ..Self::default() }
    }

    pub(crate) fn with_ban(self, state: Option<BanState>) -> Self {
        Self { ban: Self::of_ban(state).ban, ..self }
    }

    /// The subject's denials and bans, if there were any.
    #[must_use]
    pub fn ban(&self) -> Option<BanState> {
        self.ban.as_ref().map(|ban| ban.state)
    }

    /// Sets the denials and bans of the subject.
    pub(crate) fn set_ban(&mut self, state: Option<BanState>, ban: &Ban) {
        let entry = |state: BanState| BanEntry { until: state.useful_until(ban), state };
        self.ban = state.map(entry).map(Box::new);
    }

    /// Forgets what is held, and denials and bans, as a reset does: the ids of requests stay. Gives whether
    /// there was anything.
    pub fn forget_holds(&mut self) -> bool {
        let forgotten = Self { repeats: std::mem::take(&mut self.repeats), ..Self::default() };
        !std::mem::replace(self, forgotten).is_empty()
    }

    /// Whether there is room for another record once those are gone that have ended.
    pub(crate) fn has_room(&self, now: u64) -> bool {
        self.records.len() - self.ended(now).count() < Self::MOST
    }

    /// Puts a record in the place of the one that has its id, if any has.
    pub(crate) fn put(&mut self, id: HoldId, record: HoldRecord) {
        self.remove(id);
        self.bytes += record.heap_bytes();
        if record.is_to_return() {
            let returns = self.returns.get_or_insert_default();
            returns.records.insert((record.until, id));
            returns.until = returns.until.max(record.until);
        }
        for (identity, units) in record.units() {
            match self.units.iter_mut().find(|(other, _)| *other == identity) {
                Some((_, all)) => *all += units,
                None => self.units.push((identity, units)),
            }
        }
        self.records.add(id, record);
    }

    /// Removes the record of an id.
    pub(crate) fn remove(&mut self, id: HoldId) {
        if let Some(record) = self.records.remove(id) {
            self.count_out(&record);
            if let Some(returns) = &mut self.returns {
                returns.records.remove(&(record.until, id));
                if returns.records.is_empty() {
                    self.returns = None;
                }
            }
        }
    }

    fn count_out(&mut self, record: &HoldRecord) {
        self.bytes -= record.heap_bytes();
        for (identity, units) in record.units() {
            if let Some((_, all)) = self.units.iter_mut().find(|(other, _)| *other == identity) {
                *all -= units;
            }
        }
        self.units.retain(|(_, units)| *units > 0);
    }

    /// Removes what has ended, but what is to be returned if the limit does that.
    pub(crate) fn remove_ended(&mut self, now: u64, on_expiry: OnExpiry) {
        if self.returns.is_some() {
            let stays =
                |record: &HoldRecord| on_expiry == OnExpiry::Return && record.is_to_return();
            let ended = self.ended(now).filter(|(_, record)| !stays(record));
            let ended: Vec<HoldId> = ended.map(|(id, _)| id).collect();
            return ended.into_iter().for_each(|id| self.remove(id));
        }
        for _ in 0..Self::ENDED {
            let Some(record) = self.records.pop_ended(now) else { return };
            self.count_out(&record);
        }
    }

    /// Removes what has ended if there may be more of it than is looked at, for whoever was denied: it no longer
    /// stands in the way of the next. Gives whether it did.
    pub(crate) fn make_room(&mut self, now: u64, on_expiry: OnExpiry) -> bool {
        let before = self.records.len();
        if self.ended(now).count() == Self::ENDED {
            self.remove_ended(now, on_expiry);
        }
        self.records.len() < before
    }

    /// What has ended and is to be returned, the first of it.
    pub(crate) fn to_return(&self, now: u64) -> Vec<(HoldId, HoldRecord)> {
        let records = self.returns.iter().flat_map(|returns| &returns.records);
        let ended = records.take_while(|(until, _)| *until <= now).take(Self::RETURNED);
        ended.filter_map(|(_, id)| Some((*id, self.records.get(*id)?.clone()))).collect()
    }

    /// Sees to it that what is to be returned outlives its end.
    pub(crate) fn keep_returns_until(&mut self, until: u64) {
        if let Some(returns) = &mut self.returns {
            returns.until = returns.until.max(until);
        }
    }

    /// Until when what is to be returned is of use; 0 if there is nothing.
    pub(crate) fn returns_until(&self) -> u64 {
        self.returns.as_ref().map_or(0, |returns| returns.until)
    }

    /// Lets another record have an id whose own has ended and waits to be returned: nobody can name it any
    /// more, so that it goes by the next one that is free.
    pub(crate) fn free(&mut self, id: HoldId) {
        let Some(record) = self.records.get(id).filter(|record| record.is_to_return()).cloned()
        else {
            return;
        };
        let until = self.returns_until();
        self.remove(id);
        let mut other = id.next();
        while self.records.get(other).is_some() {
            other = other.next();
        }
        self.put(other, record);
        self.keep_returns_until(until);
    }

    /// What is in flight of a policy, for a request that takes so much of it, and what it takes until then.
    pub(crate) fn flight(
        &self,
        permits: &Permits,
        identity: Identity,
        now: u64,
        (cost, new_end): (u64, u64),
    ) -> permits::Balance {
        let (in_flight, passed) = (self.in_flight(identity, now), self.ended(now).count());
        let with_units = |(_, record): (HoldId, &HoldRecord)| {
            Some((record.until, record.units_of(identity)?.units))
        };
        let latest = self.records.iter().rev().take(Self::LOOKED_THROUGH);
        let last_end = latest.filter_map(with_units).next().map(|(until, _)| until);
        let last_end = last_end.unwrap_or_else(|| self.last_record_end());
        let mut excess = permits.excess(in_flight, cost);
        let looked_at = self.records.iter().skip(passed).take(Self::LOOKED_THROUGH);
        let ends = looked_at.filter_map(with_units).take_while(|(_, units)| {
            let is_needed = excess > 0;
            excess = excess.saturating_sub(*units);
            is_needed
        });
        let last_end = if in_flight > 0 { last_end } else { 0 };
        let (ends, waiting) = (ends.collect(), Waiting::default());
        permits::Balance { at: now, in_flight, last_end, new_end, ends, waiting }
    }

    /// The units in flight of a policy.
    fn in_flight(&self, identity: Identity, now: u64) -> u64 {
        let all = self.units.iter().find(|(other, _)| *other == identity);
        let ended = self.ended(now).filter_map(|(_, record)| record.units_of(identity));
        all.map_or(0, |(_, units)| *units) - ended.map(|entry| entry.units).sum::<u64>()
    }

    /// Who waits for permits.
    pub(crate) fn tickets(&self) -> &Tickets {
        self.tickets.as_deref().unwrap_or(&NO_TICKETS)
    }

    /// Sets who waits for permits.
    pub(crate) fn set_tickets(&mut self, tickets: Tickets) {
        self.tickets = Some(tickets).filter(|tickets| !tickets.is_empty()).map(Box::new);
    }

    /// Changes who waits for permits.
    pub(crate) fn change_tickets<T>(&mut self, change: impl FnOnce(&mut Tickets) -> T) -> T {
        let tickets = self.tickets.get_or_insert_default();
        let changed = change(tickets);
        if tickets.is_empty() {
            self.tickets = None;
        }
        changed
    }

    /// Those who wait for permits of a policy, and for whom there are enough by now, in their order. For
    /// stores that wake them.
    #[must_use]
    pub fn called(&self, member: &Member, now: u64) -> Vec<HoldId> {
        match member.policy().rule() {
            Rule::Permits(permits) if member.has_queue() && self.tickets.is_some() => {
                let identity = member.identity();
                let in_flight = self.in_flight(identity, now);
                self.tickets().called(permits, identity, in_flight, now)
            }
            _ => Vec::new(),
        }
    }

    /// The records that have ended, the first of them.
    fn ended(&self, now: u64) -> impl Iterator<Item = (HoldId, &HoldRecord)> {
        self.records.iter().take(Self::ENDED).take_while(move |(_, record)| record.until <= now)
    }

    /// The bytes that it takes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let ban = if self.ban.is_some() { size_of::<BanEntry>() } else { 0 };
        let tickets = self.tickets.as_ref().map_or(0, |tickets| tickets.heap_bytes());
        let returns = self
            .returns
            .as_ref()
            .map_or(0, |returns| size_of::<Returns>() + returns.records.len() * RETURN_BYTES);
        let beside = ban + self.repeats.heap_bytes() + self.line.heap_bytes() + tickets + returns;
        self.records.heap_bytes() + self.bytes + beside
    }

    /// The bytes that another record of each sort, or a ticket in the place of what is held, and a denial add
    /// to [`Book::heap_bytes`] at most.
    #[must_use]
    pub fn growth_bytes(&self) -> usize {
        let returns = size_of::<Returns>() + RETURN_BYTES;
        let hold = self.records.growth_bytes() + Limit::MAX_POLICIES * ENTRY_BYTES + returns;
        let repeat = self.repeats.growth_bytes(Decision::kept_bytes(Limit::MAX_POLICIES));
        hold.max(Tickets::GROWTH_BYTES) + repeat + self.denial_bytes()
    }

    /// The bytes that another place in line adds to [`Book::heap_bytes`] at most.
    #[must_use]
    pub const fn line_growth_bytes() -> usize {
        Line::growth_bytes()
    }

    /// The bytes that a denial adds to [`Book::heap_bytes`] at most.
    #[must_use]
    pub fn denial_bytes(&self) -> usize {
        if self.ban.is_none() { size_of::<BanEntry>() } else { 0 }
    }

    /// Encodes the records of what is held.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, self.last_record_end());
        for (id, record) in self.records.iter() {
            push(&mut bytes, record.until);
            bytes.extend_from_slice(&id.to_bytes());
            record.content.write(record.returns, &mut bytes);
        }
        bytes
    }

    /// Decodes records of what is held; `None` if they make no sense.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let _last = reader.number()?;
        let mut book = Self::default();
        while !reader.0.is_empty() {
            let until = reader.number()?;
            let id = HoldId::from_bytes(*reader.array()?);
            let (returns, content) = RecordContent::read(&mut reader)?;
            book.put(id, HoldRecord { until, returns, content });
        }
        Some(book)
    }
}

/// Sorts of records beside those that stay charged.
const SETTLED: u8 = 1;
const RETURNS: u8 = 2;

/// What a record has of one policy at most.
const ENTRY_BYTES: usize =
    size_of::<HeldUnits>() + size_of::<(Vec<u8>, Vec<u8>)>() + 2 * MOST_NUMBERS * NUMBER_BYTES;
/// The most numbers of a state that is recorded.
const MOST_NUMBERS: usize = 8;

impl RecordContent {
    fn write(&self, returns: bool, bytes: &mut Vec<u8>) {
        match self {
            Self::Live(entries) => {
                let sort = if returns { RETURNS } else { 0 };
                bytes.extend_from_slice(&[sort, count(entries.len())]);
                for entry in entries {
                    bytes.extend_from_slice(&entry.identity.to_bytes());
                    let (unit, refill) = entry.flow.unwrap_or_default();
                    let slot = entry.slot.unwrap_or(NOTHING);
                    for number in [entry.units, entry.at, unit, refill, slot] {
                        push(bytes, number);
                    }
                    let (left, found) =
                        entry.states.as_ref().map_or((&[][..], &[][..]), |it| (&it.0, &it.1));
                    for state in [left, found] {
                        let length = u16::try_from(state.len()).unwrap_or(u16::MAX);
                        bytes.extend_from_slice(&length.to_be_bytes());
                        bytes.extend_from_slice(state);
                    }
                }
            }
            Self::Settled(entries) => {
                bytes.extend_from_slice(&[SETTLED, count(entries.len())]);
                for (identity, given) in entries {
                    bytes.extend_from_slice(&identity.to_bytes());
                    push(bytes, given.unwrap_or(NOTHING));
                }
            }
        }
    }

    /// And whether what is held is to be returned.
    fn read(reader: &mut Reader<'_>) -> Option<(bool, Self)> {
        let [sort, entries] = *reader.array()?;
        let identity = |reader: &mut Reader<'_>| reader.array().copied().map(Identity::from_bytes);
        if sort == SETTLED {
            let entry = |_| {
                let (identity, given) = (identity(reader)?, reader.whole()?);
                Some((identity, Some(given).filter(|given| *given <= MAX_EXACT)))
            };
            let content = (0..entries).map(entry).collect::<Option<_>>().map(Self::Settled)?;
            return Some((false, content));
        }
        let entry = |_| {
            let identity = identity(reader)?;
            let [units, at, unit, refill] =
                [reader.number()?, reader.number()?, reader.number()?, reader.number()?];
            let flow = Some((unit, refill)).filter(|flow| *flow != (0, 0));
            let slot = Some(reader.whole()?).filter(|slot| *slot <= MAX_EXACT);
            let (left, found) = (reader.text()?, reader.text()?);
            let states = (!left.is_empty()).then(|| Box::new((left.to_vec(), found.to_vec())));
            Some(HeldUnits { identity, units, at, flow, slot, states })
        };
        let content = (0..entries).map(entry).collect::<Option<_>>().map(Self::Live)?;
        Some((sort == RETURNS, content))
    }
}

impl HoldRecord {
    /// Whether it is given back when it has ended.
    const fn is_to_return(&self) -> bool {
        self.returns && self.is_live()
    }

    /// Whether it was not settled.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.content, RecordContent::Live(_))
    }

    /// The units that are held of each policy.
    fn units(&self) -> impl Iterator<Item = (Identity, u64)> + Clone {
        let entries = match &self.content {
            RecordContent::Live(entries) => entries.as_slice(),
            RecordContent::Settled(_) => &[],
        };
        entries.iter().map(|entry| (entry.identity, entry.units))
    }

    fn heap_bytes(&self) -> usize {
        match &self.content {
            RecordContent::Live(entries) => {
                let states = entries.iter().flat_map(|entry| &entry.states);
                let numbers = states.map(|states| {
                    size_of_val(&**states) + states.0.capacity() + states.1.capacity()
                });
                let spilled = if entries.spilled() { entries.capacity() } else { 0 };
                spilled * size_of::<HeldUnits>() + numbers.sum::<usize>()
            }
            RecordContent::Settled(entries) => entries.len() * size_of::<(Identity, Option<u64>)>(),
        }
    }

    /// What a policy was charged, of a record that was not settled.
    pub(crate) fn units_of(&self, identity: Identity) -> Option<&HeldUnits> {
        match &self.content {
            RecordContent::Live(entries) => entries.iter().find(|it| it.identity == identity),
            RecordContent::Settled(_) => None,
        }
    }

    /// The same, to change it.
    pub(crate) fn units_mut(&mut self, identity: Identity) -> Option<&mut HeldUnits> {
        match &mut self.content {
            RecordContent::Live(entries) => entries.iter_mut().find(|it| it.identity == identity),
            RecordContent::Settled(_) => None,
        }
    }

    /// What a policy gave back, of a record that was settled.
    pub(crate) fn given_of(&self, identity: Identity) -> Option<u64> {
        match &self.content {
            RecordContent::Live(_) => None,
            RecordContent::Settled(entries) => {
                entries.iter().find(|(it, _)| *it == identity).and_then(|(_, given)| *given)
            }
        }
    }
}

/// What a settled record has of a policy that was not to give anything back, and a live one of units
/// that are in no slot.
const NOTHING: u64 = MAX_EXACT + 1;

/// Takes one thing after the other from stored bytes.
pub(crate) struct Reader<'b>(pub(crate) &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<&'b [u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    fn whole(&mut self) -> Option<u64> {
        let bytes: &[u8; NUMBER_BYTES] = self.array()?;
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        self.whole().filter(|number| *number <= MAX_EXACT)
    }

    pub(crate) fn text(&mut self) -> Option<&'b [u8]> {
        let length = u16::from_be_bytes(*self.array()?);
        let (text, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        Some(text)
    }
}

pub(crate) fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes()[1..]);
}

/// A limit has 64 policies at most.
fn count(entries: usize) -> u8 {
    u8::try_from(entries).unwrap_or(u8::MAX)
}
