//! The records of what is held of one subject, and their stored format; and beside them what is remembered
//! of requests that had an id, and who waits.
//!
//! | bytes | a book |
//! | --- | --- |
//! | 7 | when the last record ends, µs since the epoch |
//! | … | the records (`held`), in the order in which they end |

mod errors;
mod held;
mod listed;
mod records;
pub(crate) mod tickets;

use std::collections::BTreeSet;

use crate::ban::Ban;
use crate::ban_state::BanState;
use crate::decision::Decision;
use crate::hold::HoldId;
use crate::kernel::Rule;
use crate::kernel::permits::{self, Permits, Waiting};
use crate::limit::{Identity, Limit, Member};
use crate::line::{Line, Place};
use crate::on_expiry::OnExpiry;
use crate::reader::{Reader, push};
use crate::repeats::Repeats;
use held::ENTRY_BYTES;
use records::Records;
use tickets::{NO_TICKETS, Tickets};

pub use held::{Charged, ChargedState, HeldUnits, HoldRecord, MoreOfUnits, RecordContent};

/// The records of what is held of one subject under one limit, of its requests that had an id, and who waits
/// in its line and for permits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Book {
    records: Records,
    /// What the records have on the heap themselves.
    bytes: usize,
    // Of what follows most subjects have nothing, so that each is a pointer; none is empty.
    repeats: Option<Box<Repeats>>,
    /// The subject's denials and bans.
    ban: Option<Box<BanEntry>>,
    line: Option<Box<Line>>,
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
    pub const IDENTITY: Identity = Identity::SUBJECT;

    /// The record of an id, if it lives at `now`.
    #[must_use]
    pub fn get(&self, id: HoldId, now: u64) -> Option<&HoldRecord> {
        self.records.get(id).filter(|record| record.until > now)
    }

    /// A book that has no record, but one turn to be taken.
    #[must_use]
    pub(crate) fn of_turn(turn: Place) -> Self {
        Self { line: Some(Box::new(Line::of_turn(turn))), ..Self::default() }
    }

    /// Whether there is no record, nobody was denied or banned, nobody is in line, and nobody waits for
    /// permits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_records()
            && self.ban.is_none()
            && self.repeats.is_none()
            && self.line.is_none()
            && self.tickets.is_none()
    }

    /// Whether any request is known by its id.
    #[must_use]
    pub fn has_repeats(&self) -> bool {
        self.repeats.is_some()
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
        let passed = self.line.as_ref().map_or(0, |line| line.last_instant() + 1);
        let repeats = self.repeats.as_ref().map_or(0, |repeats| repeats.last_end());
        let tickets = self.tickets().last_end();
        let ends = [ban, repeats, passed, tickets, self.returns_until()];
        ends.into_iter().fold(self.last_record_end(), u64::max)
    }

    fn last_record_end(&self) -> u64 {
        self.records.iter().next_back().map_or(0, |(_, record)| record.until)
    }

    /// A book without records, of a subject with these denials and bans. For stores that keep those by
    /// themselves.
    #[must_use]
    pub(crate) fn of_ban(state: Option<BanState>) -> Self {
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
        let forgotten = Self { repeats: self.repeats.take(), ..Self::default() };
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
        self.records.add(id, record);
    }

    /// Removes the record of an id.
    pub(crate) fn remove(&mut self, id: HoldId) {
        if let Some(record) = self.records.remove(id) {
            self.bytes -= record.heap_bytes();
            if let Some(returns) = &mut self.returns {
                returns.records.remove(&(record.until, id));
                if returns.records.is_empty() {
                    self.returns = None;
                }
            }
        }
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
            self.bytes -= record.heap_bytes();
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
        let ended = self.ended(now).filter_map(|(_, record)| record.units_of(identity));
        self.records.units_of(identity) - ended.map(|entry| entry.units).sum::<u64>()
    }

    /// Who waits for permits.
    pub(crate) fn tickets(&self) -> &Tickets {
        self.tickets.as_deref().unwrap_or(&NO_TICKETS)
    }

    /// Sets who waits for permits.
    pub(crate) fn set_tickets(&mut self, tickets: Tickets) {
        self.tickets = boxed(tickets, Tickets::is_empty);
    }

    /// Changes who waits for permits.
    pub(crate) fn change_tickets<T>(&mut self, change: impl FnOnce(&mut Tickets) -> T) -> T {
        change_rare(&mut self.tickets, Tickets::is_empty, change)
    }

    /// What is known of requests by their ids, if there were any.
    pub(crate) fn repeats(&self) -> Option<&Repeats> {
        self.repeats.as_deref()
    }

    /// Sets what is known of requests by their ids.
    pub(crate) fn set_repeats(&mut self, repeats: Repeats) {
        self.repeats = boxed(repeats, Repeats::is_empty);
    }

    /// Changes what is known of requests by their ids.
    pub(crate) fn change_repeats<T>(&mut self, change: impl FnOnce(&mut Repeats) -> T) -> T {
        change_rare(&mut self.repeats, Repeats::is_empty, change)
    }

    /// Who is in line, if anybody is.
    pub(crate) fn line(&self) -> Option<&Line> {
        self.line.as_deref()
    }

    /// Sets who is in line.
    pub(crate) fn set_line(&mut self, line: Line) {
        self.line = boxed(line, Line::is_empty);
    }

    /// Changes who is in line.
    pub(crate) fn change_line<T>(&mut self, change: impl FnOnce(&mut Line) -> T) -> T {
        change_rare(&mut self.line, Line::is_empty, change)
    }

    /// Those who wait for permits of a policy, and for whom there are enough by now, in their order.
    pub(crate) fn called(&self, member: &Member, now: u64) -> Vec<HoldId> {
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
        let repeats = self.repeats.as_ref().map_or(0, |repeats| repeats.heap_bytes());
        let line = self.line.as_ref().map_or(0, |line| line.heap_bytes());
        self.records_bytes() + ban + repeats + line + tickets
    }

    /// What the records of what is held take of [`Book::heap_bytes`].
    #[must_use]
    pub fn records_bytes(&self) -> usize {
        let returns = self.returns.as_ref();
        let returns =
            returns.map_or(0, |it| size_of::<Returns>() + it.records.len() * RETURN_BYTES);
        self.records.heap_bytes() + self.bytes + returns
    }

    /// The bytes that another record, or a ticket in its place, adds to [`Book::heap_bytes`] at most.
    pub(crate) fn hold_growth_bytes(&self) -> usize {
        let returns = size_of::<Returns>() + RETURN_BYTES;
        let hold = self.records.growth_bytes() + Limit::MAX_POLICIES * ENTRY_BYTES + returns;
        hold.max(Tickets::GROWTH_BYTES)
    }

    /// The bytes that another id adds to [`Book::heap_bytes`] at most.
    pub(crate) fn id_growth_bytes(&self) -> usize {
        let decision = Decision::kept_bytes(Limit::MAX_POLICIES);
        match &self.repeats {
            Some(repeats) => repeats.growth_bytes(decision),
            None => Repeats::first_bytes(decision),
        }
    }

    /// The bytes that another permit, of a limit that is nothing else, adds to [`Book::records_bytes`] at most.
    #[must_use]
    pub fn permit_growth_bytes(&self) -> usize {
        self.records.growth_bytes()
    }

    /// The bytes that a denial adds to [`Book::heap_bytes`] at most.
    pub(crate) const fn denial_bytes(&self) -> usize {
        if self.ban.is_none() { size_of::<BanEntry>() } else { 0 }
    }

    /// Encodes the records of what is held.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, self.last_record_end());
        for (id, record) in self.records.iter() {
            push(&mut bytes, record.until);
            bytes.extend_from_slice(&id.to_bytes());
            record.content.write(&mut bytes);
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
            let content = RecordContent::read(&mut reader)?;
            book.put(id, HoldRecord { until, content });
        }
        Some(book)
    }
}

/// Changes what most subjects have nothing of, and puts it in a box unless nothing is left.
fn change_rare<R: Default, T>(
    rare: &mut Option<Box<R>>,
    is_empty: fn(&R) -> bool,
    change: impl FnOnce(&mut R) -> T,
) -> T {
    if let Some(there) = rare {
        let changed = change(there);
        if is_empty(there) {
            *rare = None;
        }
        return changed;
    }
    let mut new = R::default();
    let changed = change(&mut new);
    *rare = boxed(new, is_empty);
    changed
}

/// What most subjects have nothing of, in a box; `None` for nothing.
fn boxed<R>(rare: R, is_empty: fn(&R) -> bool) -> Option<Box<R>> {
    Some(rare).filter(|rare| !is_empty(rare)).map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_that_loses_all_its_records_takes_nothing() {
        let id = |number| HoldId::from_bytes([number; HoldId::BYTES]);
        let entry = |number: u8| HeldUnits {
            identity: Identity::from_bytes([number; 4]),
            returns: false,
            units: 1,
            at: 0,
            more: None,
        };
        for policies in 1..=5 {
            let mut book = Book::default();
            for number in 1..=20 {
                let content = RecordContent::Live((0..policies).map(entry).collect());
                book.put(id(number), HoldRecord { until: 9, content });
            }
            let mut clone = book.clone();
            assert_eq!(clone, book);
            (1..=20).for_each(|number| clone.remove(id(number)));
            assert_eq!((clone.heap_bytes(), clone.is_empty()), (0, true), "{policies}");
        }
    }
}
