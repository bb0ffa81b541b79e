//! The book of a subject: its holds with their stored format, its remembered request ids, and its
//! waiters.
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
use crate::pause::Pauses;
use crate::reader::{Reader, push};
use crate::repeats::Repeats;
use held::ENTRY_BYTES;
use records::Records;
use tickets::{NO_TICKETS, Tickets};

pub use held::{Charged, ChargedState, HeldUnits, HoldRecord, MoreOfUnits, RecordContent};

/// The holds of one subject under one limit, its request ids, its reservation queue and its waiters
/// for permits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Book {
    records: Records,
    /// The size of the records' own data on the heap, in bytes.
    bytes: usize,
    // Most subjects have none of the following, so each is boxed. A box is never empty.
    repeats: Option<Box<Repeats>>,
    /// The subject's denials and bans.
    ban: Option<Box<BanEntry>>,
    pauses: Option<Box<Pauses>>,
    line: Option<Box<Line>>,
    /// The waiters for permits.
    tickets: Option<Box<Tickets>>,
    /// The holds to return when they end.
    returns: Option<Box<Returns>>,
}

/// The holds of a book to return when they end.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Returns {
    /// The holds, in the order in which they end.
    records: BTreeSet<(u64, HoldId)>,
    /// The time until which the holds are needed.
    until: u64,
}

/// The maximum heap size of such a hold, in nodes that are at least half full.
const RETURN_BYTES: usize = 2 * size_of::<(u64, HoldId)>() + size_of::<usize>();

/// A subject's denials and bans.
#[derive(Clone, Debug, Eq, PartialEq)]
struct BanEntry {
    state: BanState,
    /// The time until which the entry is needed.
    until: u64,
}

impl Book {
    /// The maximum number of records of one subject under one limit, including settled ones.
    pub const MOST: usize = 65_536;
    /// The maximum number of expired records that a request examines. A new record removes them,
    /// and so does a denied request if there are more. Further expired records count as if they
    /// hadn't expired.
    pub const ENDED: usize = 24;
    /// The maximum number of a subject's expired records that one request returns. Each costs as
    /// much as settling it.
    pub const RETURNED: usize = 16;
    /// The maximum number of records that are examined for the ends of their units.
    pub const LOOKED_THROUGH: usize = 1_024;
    /// The kind of an entry with a book.
    pub(crate) const KIND: u8 = 0xc2;
    /// The identity of the stored entry, next to those of policies.
    pub const IDENTITY: Identity = Identity::SUBJECT;

    /// Returns the record of an id, if it is valid at `now`.
    #[must_use]
    pub fn get(&self, id: HoldId, now: u64) -> Option<&HoldRecord> {
        self.records.get(id).filter(|record| record.until > now)
    }

    /// Creates a book with one turn to take and no record.
    #[must_use]
    pub(crate) fn of_turn(turn: Place) -> Self {
        Self { line: Some(Box::new(Line::of_turn(turn))), ..Self::default() }
    }

    /// Returns `true` if the book has no record, no denial or ban, no pause, no reservation queue and
    /// no waiter for permits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_records()
            && self.ban.is_none()
            && self.pauses.is_none()
            && self.repeats.is_none()
            && self.line.is_none()
            && self.tickets.is_none()
    }

    /// Returns `true` if any request is remembered by its id.
    #[must_use]
    pub fn has_repeats(&self) -> bool {
        self.repeats.is_some()
    }

    /// Returns `true` if there is any hold.
    pub(crate) fn has_records(&self) -> bool {
        self.records.len() > 0
    }

    /// Returns the time when the last item of the book ends, in µs since the epoch; 0 if it is
    /// empty.
    #[must_use]
    pub fn last_end(&self) -> u64 {
        let ban = self.ban.as_ref().map_or(0, |ban| ban.until);
        // A reservation is valid until its instant has passed.
        let passed = self.line.as_ref().map_or(0, |line| line.last_instant() + 1);
        let repeats = self.repeats.as_ref().map_or(0, |repeats| repeats.last_end());
        let tickets = self.tickets().last_end();
        let ends = [ban, self.paused_until(), repeats, passed, tickets, self.returns_until()];
        ends.into_iter().fold(self.last_record_end(), u64::max)
    }

    fn last_record_end(&self) -> u64 {
        self.records.iter().next_back().map_or(0, |(_, record)| record.until)
    }

    /// Creates a book with only a subject's denials and bans. For stores that keep those
    /// separately.
    #[must_use]
    pub(crate) fn of_ban(state: Option<BanState>) -> Self {
        let entry = |state: BanState| BanEntry { until: state.until, state };
        Self { ban: state.map(entry).map(Box::new), ..Self::default() }
    }

    pub(crate) fn with_ban(self, state: Option<BanState>) -> Self {
        Self { ban: Self::of_ban(state).ban, ..self }
    }

    /// Returns the subject's denials and bans, if there were any.
    #[must_use]
    pub fn ban(&self) -> Option<BanState> {
        self.ban.as_ref().map(|ban| ban.state)
    }

    /// Sets the denials and bans of the subject.
    pub(crate) fn set_ban(&mut self, state: Option<BanState>, ban: &Ban) {
        let entry = |state: BanState| BanEntry { until: state.useful_until(ban), state };
        self.ban = state.map(entry).map(Box::new);
    }

    /// Returns the subject's pauses, if there were any.
    pub(crate) fn pauses(&self) -> Option<&Pauses> {
        self.pauses.as_deref()
    }

    /// Sets the pauses of the subject.
    pub(crate) fn set_pauses(&mut self, pauses: Pauses) {
        self.pauses = boxed(pauses, Pauses::is_empty);
    }

    /// Returns the end of the subject's last pause, in µs since the epoch; 0 if there is none.
    #[must_use]
    pub fn paused_until(&self) -> u64 {
        self.pauses.as_ref().map_or(0, |pauses| pauses.last_end())
    }

    /// Forgets holds, denials, bans and pauses, as a reset does, and keeps the request ids.
    ///
    /// Returns `true` if there was anything to forget.
    pub fn forget_holds(&mut self) -> bool {
        let forgotten = Self { repeats: self.repeats.take(), ..Self::default() };
        !std::mem::replace(self, forgotten).is_empty()
    }

    /// Returns `true` if another record fits after expired ones are removed.
    pub(crate) fn has_room(&self, now: u64) -> bool {
        self.records.len() - self.ended(now).count() < Self::MOST
    }

    /// Adds a record, and replaces the one with its id, if there is any.
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

    /// Removes expired records, except for those to return if the limit returns them.
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

    /// Removes expired records if there may be more than a single request examines. Returns `true`
    /// if it removed any.
    ///
    /// A denied request calls it, so that these records don't hinder the next request.
    pub(crate) fn make_room(&mut self, now: u64, on_expiry: OnExpiry) -> bool {
        let before = self.records.len();
        if self.ended(now).count() == Self::ENDED {
            self.remove_ended(now, on_expiry);
        }
        self.records.len() < before
    }

    /// Returns the first expired records to return, at most [`Book::RETURNED`].
    pub(crate) fn to_return(&self, now: u64) -> Vec<(HoldId, HoldRecord)> {
        let records = self.returns.iter().flat_map(|returns| &returns.records);
        let ended = records.take_while(|(until, _)| *until <= now).take(Self::RETURNED);
        ended.filter_map(|(_, id)| Some((*id, self.records.get(*id)?.clone()))).collect()
    }

    /// Keeps the records to return until a time after their end.
    pub(crate) fn keep_returns_until(&mut self, until: u64) {
        if let Some(returns) = &mut self.returns {
            returns.until = returns.until.max(until);
        }
    }

    /// Returns the time until which the records to return are needed; 0 if there are none.
    pub(crate) fn returns_until(&self) -> u64 {
        self.returns.as_ref().map_or(0, |returns| returns.until)
    }

    /// Frees the id of a record that has ended and still has to be returned.
    ///
    /// No caller can use that id any more, so the record moves to the next free id.
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

    /// Returns the balance of a policy's permits, for a request with this cost and its end.
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

    /// Returns the units in flight of a policy.
    fn in_flight(&self, identity: Identity, now: u64) -> u64 {
        let ended = self.ended(now).filter_map(|(_, record)| record.units_of(identity));
        self.records.units_of(identity) - ended.map(|entry| entry.units).sum::<u64>()
    }

    /// Returns the waiters for permits.
    pub(crate) fn tickets(&self) -> &Tickets {
        self.tickets.as_deref().unwrap_or(&NO_TICKETS)
    }

    /// Sets the waiters for permits.
    pub(crate) fn set_tickets(&mut self, tickets: Tickets) {
        self.tickets = boxed(tickets, Tickets::is_empty);
    }

    /// Changes the waiters for permits.
    pub(crate) fn change_tickets<T>(&mut self, change: impl FnOnce(&mut Tickets) -> T) -> T {
        change_rare(&mut self.tickets, Tickets::is_empty, change)
    }

    /// Returns the remembered request ids, if there are any.
    pub(crate) fn repeats(&self) -> Option<&Repeats> {
        self.repeats.as_deref()
    }

    /// Sets the remembered request ids.
    pub(crate) fn set_repeats(&mut self, repeats: Repeats) {
        self.repeats = boxed(repeats, Repeats::is_empty);
    }

    /// Changes the remembered request ids.
    pub(crate) fn change_repeats<T>(&mut self, change: impl FnOnce(&mut Repeats) -> T) -> T {
        change_rare(&mut self.repeats, Repeats::is_empty, change)
    }

    /// Returns the reservation queue, unless it is empty.
    pub(crate) fn line(&self) -> Option<&Line> {
        self.line.as_deref()
    }

    /// Sets the reservation queue.
    pub(crate) fn set_line(&mut self, line: Line) {
        self.line = boxed(line, Line::is_empty);
    }

    /// Changes the reservation queue.
    pub(crate) fn change_line<T>(&mut self, change: impl FnOnce(&mut Line) -> T) -> T {
        change_rare(&mut self.line, Line::is_empty, change)
    }

    /// Returns the waiters for a policy's permits that have enough free units now, in their order.
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

    /// Returns the first expired records, at most [`Book::ENDED`].
    fn ended(&self, now: u64) -> impl Iterator<Item = (HoldId, &HoldRecord)> {
        self.records.iter().take(Self::ENDED).take_while(move |(_, record)| record.until <= now)
    }

    /// Returns the size on the heap, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let ban = if self.ban.is_some() { size_of::<BanEntry>() } else { 0 };
        let pauses = self.pauses.as_ref().map_or(0, |pauses| pauses.heap_bytes());
        let tickets = self.tickets.as_ref().map_or(0, |tickets| tickets.heap_bytes());
        let repeats = self.repeats.as_ref().map_or(0, |repeats| repeats.heap_bytes());
        let line = self.line.as_ref().map_or(0, |line| line.heap_bytes());
        self.records_bytes() + ban + pauses + repeats + line + tickets
    }

    /// Returns the part of [`Book::heap_bytes`] for records of holds.
    #[must_use]
    pub fn records_bytes(&self) -> usize {
        let returns = self.returns.as_ref();
        let returns =
            returns.map_or(0, |it| size_of::<Returns>() + it.records.len() * RETURN_BYTES);
        self.records.heap_bytes() + self.bytes + returns
    }

    /// Returns the maximum number of bytes that another record or ticket adds to
    /// [`Book::heap_bytes`].
    pub(crate) fn hold_growth_bytes(&self) -> usize {
        let returns = size_of::<Returns>() + RETURN_BYTES;
        let hold = self.records.growth_bytes() + Limit::MAX_POLICIES * ENTRY_BYTES + returns;
        hold.max(Tickets::GROWTH_BYTES)
    }

    /// Returns the maximum number of bytes that another id adds to [`Book::heap_bytes`].
    pub(crate) fn id_growth_bytes(&self) -> usize {
        let decision = Decision::kept_bytes(Limit::MAX_POLICIES);
        match &self.repeats {
            Some(repeats) => repeats.growth_bytes(decision),
            None => Repeats::first_bytes(decision),
        }
    }

    /// Returns the maximum number of bytes that another permit adds to [`Book::records_bytes`].
    ///
    /// The limit must have no other policies.
    #[must_use]
    pub fn permit_growth_bytes(&self) -> usize {
        self.records.growth_bytes()
    }

    /// Returns the maximum number of bytes that a denial adds to [`Book::heap_bytes`].
    pub(crate) const fn denial_bytes(&self) -> usize {
        if self.ban.is_none() { size_of::<BanEntry>() } else { 0 }
    }

    /// Encodes the records of holds.
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

    /// Decodes records of holds; `None` if they are malformed.
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

/// Changes a field that most subjects don't have, and boxes it unless it is empty.
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

/// Boxes a field that most subjects don't have; `None` if it is empty.
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
