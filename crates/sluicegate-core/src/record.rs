//! The stored format: all small states of one subject in one value.
//!
//! A value is a sequence of entries, in no particular order:
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | kind: which kernel, and which version of its layout |
//! | 4 | identity: a hash of the policy's name, algorithm and window |
//! | 1 | retention `k`: the entry is useful until its newest time + 2^k µs |
//! | 2 or 4 | length of what follows, for kinds from 0x80 and from 0xc0 up |
//! | … | the numbers of the state, 7 bytes each, big-endian; the newest time is the first |
//!
//! `docs/semantics.md` lists the kind and the numbers of each kernel's states.
//!
//! The layout of a kind never changes: a new layout gets a new kind. Kinds below 0x80 always have a
//! fixed length. A reader skips unknown kinds from 0x80 up by their stored length, so an older
//! program preserves the data of a newer one.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::ban::Ban;
use crate::ban_state::BanState;
use crate::book::Book;
use crate::book::tickets::Tickets;
use crate::kernel::{
    FIXED_KINDS, HEAD_BYTES, LISTED_FROM, Leased, NUMBER_BYTES, State, WHOLE_FROM, retention,
};
use crate::limit::{Identity, Limit, Member};
use crate::line::{Line, PlaceName};
use crate::number::MAX_EXACT;
use crate::pause::{Pause, Pauses};
use crate::receipt::{Change, PartReceipt, Receipt};
use crate::repeats::Repeats;
use crate::request::Request;
use crate::stored::Stored;

/// A decoded value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record<'v> {
    entries: Vec<Entry<'v>>,
    is_torn: bool,
}

/// One entry of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry<'v> {
    /// The kernel and its layout.
    pub kind: u8,
    /// The policy of the state.
    pub identity: Identity,
    /// The entry is useful until its newest time + 2^retention µs.
    pub retention: u8,
    /// The numbers of the state as bytes.
    pub body: Cow<'v, [u8]>,
}

/// Returns the receipt of a reservation, from the states before and after it.
pub(crate) fn receipt(
    limit: &Limit,
    request: &Request<'_>,
    before: &[Option<Stored>],
    after: &[Option<Stored>],
    place: Option<PlaceName>,
) -> Receipt {
    let value = |part, held| Some(encode(limit, part, held)).filter(|value| !value.is_empty());
    let parts = 0..limit.parts().len();
    let changes = parts.map(|part| Change::of(value(part, before), value(part, after)));
    receipt_of(limit, request, changes, place)
}

/// Returns the receipt of a reservation, from its changes to each part.
pub(crate) fn receipt_of(
    limit: &Limit,
    request: &Request<'_>,
    changes: impl IntoIterator<Item = Option<Change>>,
    place: Option<PlaceName>,
) -> Receipt {
    let parts = limit.parts().iter().zip(changes).enumerate();
    let parts = parts.map(|(part, (name, change))| PartReceipt {
        limit: name.clone(),
        subject: request.subject(part).to_vec(),
        change,
    });
    Receipt::new(parts.collect()).with_place(place)
}

/// Returns the entries in which a book is stored. Each has the time until which it is needed, in µs
/// since the epoch.
pub(crate) fn entries_of(
    book: &Book,
    ban: Option<&Ban>,
) -> impl Iterator<Item = (Entry<'static>, u64)> {
    let denials = book.ban().zip(ban).map(|(state, ban)| {
        let (body, retention) = (Cow::Owned(bytes_of(&state.numbers())), state.retention(ban));
        let (kind, identity) = (BanState::KIND, BanState::IDENTITY);
        (Entry { kind, identity, retention, body }, state.useful_until(ban))
    });
    let pauses = book.pauses().into_iter().flat_map(Pauses::iter).map(|(identity, pause)| {
        let (body, retention) = (Cow::Owned(bytes_of(&pause.numbers())), pause.retention());
        (Entry { kind: Pause::KIND, identity, retention, body }, pause.until)
    });
    let repeats = book.repeats().map(|it| (Repeats::KIND, Repeats::IDENTITY, it.write()));
    let holds = book.has_records().then(|| (Book::KIND, Book::IDENTITY, book.write()));
    let line = book.line().map(|it| (Line::KIND, Book::IDENTITY, it.write()));
    let tickets = Some(book.tickets()).filter(|tickets| !tickets.is_empty());
    let tickets = tickets.map(|it| (Tickets::KIND, Book::IDENTITY, it.write()));
    let others = [holds, repeats, line, tickets].into_iter().flatten();
    denials.into_iter().chain(pauses).chain(others.map(|(kind, identity, body)| {
        let entry = Entry { kind, identity, retention: 0, body: Cow::Owned(body) };
        let until = entry.useful_until();
        (entry, until)
    }))
}

/// Returns the numbers of a state as they are stored; empty for no state.
///
/// `None` for a state that can have many numbers, and for one with leased units. A state with held
/// units gives the numbers of its first bound.
pub(crate) fn numbers_of(held: Option<&Stored>) -> Option<Box<[u8]>> {
    match held {
        None => Some(Box::default()),
        Some(Stored::State(State::Log(_)) | Stored::Reading(_)) => None,
        Some(Stored::Leased(leased)) if !leased.slots.is_empty() => None,
        Some(Stored::State(state)) => Some(bytes_of_state(state)),
        Some(Stored::Leased(leased)) => Some(bytes_of_state(&leased.state)),
    }
}

fn bytes_of_state(state: &State) -> Box<[u8]> {
    let mut numbers = Vec::new();
    state.write(&mut numbers);
    bytes_of(&numbers).into_boxed_slice()
}

/// Reads the state of a policy from its stored numbers; `None` if there are none, or they are
/// invalid.
pub(crate) fn state_from(bytes: &[u8], member: &Member) -> Option<Stored> {
    let numbers = Some(bytes).filter(|bytes| !bytes.is_empty()).and_then(read_numbers)?;
    member.policy().rule().read(&numbers).map(Stored::State)
}

/// Returns a policy's state from a value.
pub(crate) fn state_of(value: &[u8], member: &Member) -> Option<Stored> {
    Record::decode(value).held(member).0
}

/// Encodes the states of one part's policies as a value.
pub(crate) fn encode(limit: &Limit, part: usize, held: &[Option<Stored>]) -> Vec<u8> {
    let mut value = Vec::new();
    for (member, held) in limit.members().iter().zip(held) {
        match held {
            Some(Stored::State(state)) if member.part() == part => {
                Entry::of(member, state).write(&mut value);
            }
            Some(Stored::Leased(leased)) if member.part() == part => {
                Entry::of_leased(member, leased).write(&mut value);
            }
            _ => {}
        }
    }
    value
}

impl<'v> Record<'v> {
    /// Decodes a value, up to the first byte that doesn't begin an entry.
    #[must_use]
    pub fn decode(value: &'v [u8]) -> Self {
        let mut record = Self::default();
        let mut rest = value;
        while !rest.is_empty() {
            let Some((entry, after)) = Entry::split_from(rest) else {
                record.is_torn = true;
                break;
            };
            record.entries.push(entry);
            rest = after;
        }
        record
    }

    /// Returns the entries, in stored order.
    #[must_use]
    pub fn entries(&self) -> &[Entry<'v>] {
        &self.entries
    }

    /// Returns `true` if the value has bytes that don't form a whole entry.
    #[must_use]
    pub const fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Returns the entry with this identity and kind.
    #[must_use]
    pub fn entry(&self, identity: Identity, kind: u8) -> Option<&Entry<'v>> {
        let theirs = |entry: &&Entry<'_>| entry.identity == identity && entry.kind == kind;
        self.entries.iter().rev().find(theirs)
    }

    /// Returns a policy's state, and whether an entry of the policy can't be read.
    #[must_use]
    pub fn held(&self, member: &Member) -> (Option<Stored>, bool) {
        let (rule, identity) = (member.policy().rule(), member.identity());
        let of = |kind: Option<u8>| kind.and_then(|kind| self.entry(identity, kind));
        let held = of(rule.held_kind());
        if let Some(entry) = held.or_else(|| of(rule.leased_kind())) {
            let read = if held.is_some() { Leased::read_held } else { Leased::read };
            let leased = entry.numbers().and_then(|numbers| read(rule, &numbers));
            let is_unreadable = leased.is_none();
            return (leased.map(|leased| Stored::Leased(Box::new(leased))), is_unreadable);
        }
        let entry = self.entry(identity, rule.profile().layout.kind());
        let state = entry.and_then(|entry| entry.state(member));
        let is_unreadable = entry.is_some() && state.is_none();
        (state.map(Stored::State), is_unreadable)
    }

    /// Returns the book of the subject, and whether any part of it can't be read.
    ///
    /// The book has holds, requests with an id, the reservation queue, waiters for permits, and the
    /// denials, bans and pauses.
    pub(crate) fn book(&self) -> (Book, bool) {
        let (ban, mut is_torn) = self.ban();
        let mut book =
            self.read(Book::IDENTITY, Book::KIND, Book::read, &mut is_torn).with_ban(ban);
        let (pauses, are_torn) = self.pauses();
        is_torn |= are_torn;
        book.set_pauses(pauses);
        book.set_repeats(self.read(Repeats::IDENTITY, Repeats::KIND, Repeats::read, &mut is_torn));
        book.set_line(self.read(Book::IDENTITY, Line::KIND, Line::read, &mut is_torn));
        book.set_tickets(self.read(Book::IDENTITY, Tickets::KIND, Tickets::read, &mut is_torn));
        (book, is_torn)
    }

    fn read<T: Default>(
        &self,
        identity: Identity,
        kind: u8,
        read: fn(&[u8]) -> Option<T>,
        is_torn: &mut bool,
    ) -> T {
        let Some(entry) = self.entry(identity, kind) else { return T::default() };
        read(&entry.body).unwrap_or_else(|| {
            *is_torn = true;
            T::default()
        })
    }

    pub(crate) fn has_more_than_repeats(&self) -> bool {
        self.is_torn || self.entries.iter().any(|entry| !entry.is_of_repeats())
    }

    /// Returns the denials and bans, and whether an entry of them can't be read.
    #[must_use]
    pub fn ban(&self) -> (Option<BanState>, bool) {
        let entry = self.entry(BanState::IDENTITY, BanState::KIND);
        let state = entry.and_then(|entry| BanState::from_numbers(&entry.numbers()?));
        (state, entry.is_some() && state.is_none())
    }

    /// Returns the pauses, and whether an entry of them can't be read.
    #[must_use]
    pub fn pauses(&self) -> (Pauses, bool) {
        let (mut pauses, mut is_torn) = (Pauses::default(), false);
        for entry in self.entries.iter().filter(|entry| entry.is_of_pauses()) {
            match entry.numbers().and_then(|numbers| Pause::from_numbers(&numbers)) {
                Some(pause) => pauses.put(entry.identity, pause),
                None => is_torn = true,
            }
        }
        (pauses, is_torn)
    }

    /// Returns `true` if the subject has or had pauses.
    pub(crate) fn has_pauses(&self) -> bool {
        self.entries.iter().any(Entry::is_of_pauses)
    }
}

impl<'v> Entry<'v> {
    /// Creates the entry for a policy's state.
    #[must_use]
    pub fn of(member: &Member, state: &State) -> Entry<'static> {
        let profile = member.policy().rule().profile();
        let mut numbers = Vec::new();
        state.write(&mut numbers);
        Entry::new(profile.layout.kind(), member, retention(profile.retention), &numbers)
    }

    /// Creates the entry for a policy's state with leased or held units.
    #[must_use]
    pub fn of_leased(member: &Member, leased: &Leased) -> Entry<'static> {
        let rule = member.policy().rule();
        let mut numbers = Vec::new();
        leased.write(&mut numbers);
        let kind = match leased.bound {
            Some(_) => rule.held_kind(),
            None => rule.leased_kind(),
        };
        let kind = kind.unwrap_or_else(|| rule.profile().layout.kind());
        Entry::new(kind, member, leased_retention(retention(rule.profile().retention)), &numbers)
    }

    fn new(kind: u8, member: &Member, retention: u8, numbers: &[u64]) -> Entry<'static> {
        let body = Cow::Owned(bytes_of(numbers));
        Entry { kind, identity: member.identity(), retention, body }
    }

    /// Returns the state of a policy; `None` if the numbers aren't a valid state.
    #[must_use]
    pub fn state(&self, member: &Member) -> Option<State> {
        member.policy().rule().read(&self.numbers()?)
    }

    /// Returns the numbers; `None` if they are truncated or above 2^53 − 1.
    #[must_use]
    pub fn numbers(&self) -> Option<SmallVec<[u64; 8]>> {
        read_numbers(&self.body)
    }

    /// Appends the entry to a value.
    pub fn write(&self, value: &mut Vec<u8>) {
        value.push(self.kind);
        value.extend_from_slice(&self.identity.to_bytes());
        value.push(self.retention);
        let length = self.body.len();
        match self.kind {
            0..LISTED_FROM => {}
            LISTED_FROM..WHOLE_FROM => {
                value.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
            }
            WHOLE_FROM.. => {
                value.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
            }
        }
        value.extend_from_slice(&self.body);
    }

    /// Splits the first entry off a value; `None` if there is no whole entry.
    fn split_from(value: &'v [u8]) -> Option<(Self, &'v [u8])> {
        let (&[kind, a, b, c, d, retention], rest) = value.split_first_chunk::<HEAD_BYTES>()?;
        let (length, rest) = match kind {
            0..LISTED_FROM => {
                let known = FIXED_KINDS.iter().find(|known| known.kind == kind)?;
                (NUMBER_BYTES * known.numbers, rest)
            }
            LISTED_FROM..WHOLE_FROM => {
                let (length, rest) = rest.split_first_chunk()?;
                (usize::from(u16::from_be_bytes(*length)), rest)
            }
            WHOLE_FROM.. => {
                let (length, rest) = rest.split_first_chunk()?;
                (usize::try_from(u32::from_be_bytes(*length)).ok()?, rest)
            }
        };
        // Every state begins with its newest time.
        let (body, rest) = rest.split_at_checked(length).filter(|_| length >= NUMBER_BYTES)?;
        let identity = Identity::from_bytes([a, b, c, d]);
        Some((Self { kind, identity, retention, body: Cow::Borrowed(body) }, rest))
    }

    /// Returns `true` if the entry has requests with an id, which a reset leaves unchanged.
    pub(crate) fn is_of_repeats(&self) -> bool {
        self.kind == Repeats::KIND && self.identity == Repeats::IDENTITY
    }

    /// Returns `true` if the entry has denials and bans.
    pub(crate) fn is_of_bans(&self) -> bool {
        self.kind == BanState::KIND && self.identity == BanState::IDENTITY
    }

    /// Returns `true` if the entry is a pause.
    pub(crate) const fn is_of_pauses(&self) -> bool {
        self.kind == Pause::KIND
    }

    /// Returns `true` if the entry is part of a book, except for denials and bans.
    pub(crate) fn is_of_book(&self) -> bool {
        let is_of_kind = [Book::KIND, Line::KIND, Tickets::KIND].contains(&self.kind);
        is_of_kind && self.identity == Book::IDENTITY || self.is_of_repeats() || self.is_of_pauses()
    }

    /// Returns the time until which a program that knows the entry's policy needs it, in µs since
    /// the epoch.
    pub(crate) fn useful_until(&self) -> u64 {
        let newest = self.body.get(..NUMBER_BYTES).map_or(0, read_number);
        newest.saturating_add(1_u64.checked_shl(self.retention.into()).unwrap_or(u64::MAX))
    }
}

/// Decodes whole numbers of 7 bytes each; `None` if they are truncated or above 2^53 − 1.
#[must_use]
pub fn read_numbers(bytes: &[u8]) -> Option<SmallVec<[u64; 8]>> {
    let numbers = bytes.chunks_exact(NUMBER_BYTES);
    if !numbers.remainder().is_empty() {
        return None;
    }
    numbers.map(read_number).map(|number| (number <= MAX_EXACT).then_some(number)).collect()
}

/// Returns the retention of a state with leased units, which is longer by the longest lease.
#[must_use]
pub const fn leased_retention(plain: u8) -> u8 {
    const LONGEST: u8 = retention(Leased::LONGEST.as_micros());
    1 + if plain > LONGEST { plain } else { LONGEST }
}

fn bytes_of(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()[1..].to_vec()).collect()
}

fn read_number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
