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
//! The layout of a kind never changes: a new layout gets a new kind. Kinds below 0x80 have a fixed
//! length for good; a reader skips unknown kinds from 0x80 up by their stored length, so an older
//! program preserves what a newer one has written.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::ban::BanState;
use crate::book::Book;
use crate::book::tickets::Tickets;
use crate::failure::Error;
use crate::kernel::{
    FIXED_KINDS, HEAD_BYTES, LISTED_FROM, Leased, NUMBER_BYTES, Now, State, WHOLE_FROM,
};
use crate::limit::{Identity, Limit, Member};
use crate::line::{Line, PlaceName};
use crate::number::MAX_EXACT;
use crate::receipt::{Change, PartReceipt, Receipt};
use crate::repeats::Repeats;
use crate::request::Request;
use crate::step::{Held, Step, step_with_books};

/// A decoded value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record<'v> {
    entries: Vec<Entry<'v>>,
    is_torn: bool,
}

/// One entry of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry<'v> {
    /// Which kernel and which layout.
    pub kind: u8,
    /// Which policy's state.
    pub identity: Identity,
    /// The entry is useful until its newest time + 2^retention µs.
    pub retention: u8,
    /// The numbers of the state as bytes.
    pub body: Cow<'v, [u8]>,
}

/// What a store with one value per subject has to do with the value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Write {
    /// Leave the value as it is.
    Nothing,
    /// Write the value.
    Set {
        /// The value.
        value: Vec<u8>,
        /// For how many µs from now the store has to keep it at least; `u64::MAX` means for ever.
        life: u64,
    },
    /// Remove the value.
    Remove,
}

/// [`step`](crate::step()) for a store that keeps one encoded value per subject and part of a
/// limit: returns the step, and what to write for each part.
///
/// `values` holds the current value of each part, in order. States of other versions of the limit,
/// which another program may be using, are kept as long as they are useful to it. A state that
/// can't be decoded counts as absent, and [`Notes::discarded`](crate::Notes) reports it.
///
/// ```
/// use sluicegate_core::record::{Write, step_values};
/// use sluicegate_core::{Limit, Now, Request};
///
/// let limit = Limit::new("login".parse()?, vec!["gcra 1/s".parse()?])?;
/// let now = Now { micros: 1_000_000, max_clock_back: None };
/// let (step, writes) = step_values(&limit, &Request::check(b"alice"), now, &[None])?;
/// assert!(step.decision.is_allowed());
/// assert!(matches!(&writes[0], Write::Set { value, life: 1_000_000 } if value.len() == 27));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`step`](crate::step()); write nothing then.
pub fn step_values(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    values: &[Option<&[u8]>],
) -> Result<(Step, SmallVec<[Write; 1]>), Error> {
    let records: SmallVec<[Record<'_>; 1]> =
        values.iter().map(|value| Record::decode(value.unwrap_or_default())).collect();
    let mut discarded = records.iter().any(|record| record.is_torn);
    let mut held: Vec<Option<Held>> = Vec::with_capacity(limit.members().len());
    for member in limit.members() {
        let (state, is_unreadable) = records[member.part()].held(member);
        discarded |= is_unreadable;
        held.push(state);
    }
    // What holds nothing reads none of what is held.
    let needs_books = request.needs_books(limit) || request.is_in_line(limit);
    let read = |record: &Record<'_>| {
        let (book, is_torn) = record.book();
        discarded |= is_torn;
        book
    };
    let mut books: SmallVec<[Book; 1]> = records.iter().filter(|_| needs_books).map(read).collect();
    let mut step = step_with_books(limit, request, now, &mut held, &mut books)?;
    if discarded {
        let mut notes = step.decision.notes();
        notes.discarded = true;
        step.decision.set_notes(notes);
    }
    if step.forgets() {
        // Also of policies that are not asked here.
        step.decision.set_forgotten(records.iter().any(Record::has_more_than_repeats));
    }
    let writes = records.iter().enumerate().map(|(part, record)| {
        let changed = |(index, member): &(usize, &Member)| {
            member.part() == part && step.changed & (1 << index) != 0
        };
        let book = books.get(part).filter(|_| step.books & (1 << part) != 0);
        if book.is_none() && !limit.members().iter().enumerate().any(|member| changed(&member)) {
            return Write::Nothing;
        }
        record.write(limit, part, (&held, book), &step, now)
    });
    let writes = writes.collect();
    Ok((step, writes))
}

/// The receipt of a reservation, from the states before and after it.
pub(crate) fn receipt(
    limit: &Limit,
    request: &Request<'_>,
    before: &[Option<Held>],
    after: &[Option<Held>],
    place: Option<PlaceName>,
) -> Receipt {
    let parts = limit.parts().iter().enumerate().map(|(part, name)| {
        let (before, after) = (encode(limit, part, before), encode(limit, part, after));
        let before = Some(before).filter(|before| !before.is_empty());
        PartReceipt {
            limit: name.clone(),
            subject: request.subject(part).to_vec(),
            // A value that was rewritten unchanged has nothing to give back.
            change: (before.as_ref() != Some(&after) && !after.is_empty())
                .then_some(Change { before, after }),
        }
    });
    Receipt::new(parts.collect()).with_place(place)
}

/// The numbers of a state, as they are stored; empty for none. `None` for one that can have many, and
/// for one of which units are leased. Of one of which units are held, those of its first bound.
pub(crate) fn numbers_of(held: Option<&Held>) -> Option<Box<[u8]>> {
    match held {
        None => Some(Box::default()),
        Some(Held::State(State::Log(_)) | Held::Reading(_)) => None,
        Some(Held::Leased(leased)) if !leased.slots.is_empty() => None,
        Some(Held::State(state)) => Some(bytes_of_state(state)),
        Some(Held::Leased(leased)) => Some(bytes_of_state(&leased.state)),
    }
}

fn bytes_of_state(state: &State) -> Box<[u8]> {
    let mut numbers = Vec::new();
    state.write(&mut numbers);
    bytes_of(&numbers).into_boxed_slice()
}

/// The state of a policy that is stored as these numbers; `None` for none, and where they are no state.
pub(crate) fn state_from(bytes: &[u8], member: &Member) -> Option<Held> {
    let numbers = Some(bytes).filter(|bytes| !bytes.is_empty()).and_then(read_numbers)?;
    member.policy().rule().read(&numbers).map(Held::State)
}

/// What a value has of a policy.
pub(crate) fn state_of(value: &[u8], member: &Member) -> Option<Held> {
    Record::decode(value).held(member).0
}

/// Encodes the states of one part's policies as a value.
fn encode(limit: &Limit, part: usize, held: &[Option<Held>]) -> Vec<u8> {
    let mut value = Vec::new();
    for (member, held) in limit.members().iter().zip(held) {
        match held {
            Some(Held::State(state)) if member.part() == part => {
                Entry::of(member, state).write(&mut value);
            }
            Some(Held::Leased(leased)) if member.part() == part => {
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

    /// The entries, in stored order.
    #[must_use]
    pub fn entries(&self) -> &[Entry<'v>] {
        &self.entries
    }

    /// Whether the value has bytes that are not a whole entry.
    #[must_use]
    pub const fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The entry with this identity and kind.
    #[must_use]
    pub fn entry(&self, identity: Identity, kind: u8) -> Option<&Entry<'v>> {
        let theirs = |entry: &&Entry<'_>| entry.identity == identity && entry.kind == kind;
        self.entries.iter().rev().find(theirs)
    }

    /// What the value has of a policy, and whether it has an entry that can't be read.
    #[must_use]
    pub fn held(&self, member: &Member) -> (Option<Held>, bool) {
        let (rule, identity) = (member.policy().rule(), member.identity());
        let of = |kind: Option<u8>| kind.and_then(|kind| self.entry(identity, kind));
        let held = of(rule.held_kind());
        if let Some(entry) = held.or_else(|| of(rule.leased_kind())) {
            let read = if held.is_some() { Leased::read_held } else { Leased::read };
            let leased = entry.numbers().and_then(|numbers| read(rule, &numbers));
            let is_unreadable = leased.is_none();
            return (leased.map(|leased| Held::Leased(Box::new(leased))), is_unreadable);
        }
        let entry = self.entry(identity, rule.layout().kind());
        let state = entry.and_then(|entry| entry.state(member));
        let is_unreadable = entry.is_some() && state.is_none();
        (state.map(Held::State), is_unreadable)
    }

    /// The records of what is held and of requests with an id, the line, who waits for permits, and the
    /// denials and bans; and whether any of that can't be read.
    pub(crate) fn book(&self) -> (Book, bool) {
        let holds = self.entry(Book::IDENTITY, Book::KIND).map(|entry| Book::read(&entry.body));
        let repeats = self.entry(Repeats::IDENTITY, Repeats::KIND);
        let repeats = repeats.map(|entry| Repeats::read(&entry.body));
        let (ban, is_torn) = self.ban();
        let line = self.entry(Book::IDENTITY, Line::KIND).map(|entry| Line::read(&entry.body));
        let tickets = self.entry(Book::IDENTITY, Tickets::KIND);
        let tickets = tickets.map(|entry| Tickets::read(&entry.body));
        let is_torn = is_torn
            || matches!(holds, Some(None))
            || matches!(repeats, Some(None))
            || matches!(line, Some(None))
            || matches!(tickets, Some(None));
        let mut book = holds.flatten().unwrap_or_default().with_ban(ban);
        book.set_repeats(repeats.flatten().unwrap_or_default());
        book.set_line(line.flatten().unwrap_or_default());
        book.set_tickets(tickets.flatten().unwrap_or_default());
        (book, is_torn)
    }

    fn has_more_than_repeats(&self) -> bool {
        self.is_torn || self.entries.iter().any(|entry| !entry.is_of_repeats())
    }

    /// The denials and bans, and whether there is an entry of them that can't be read.
    #[must_use]
    pub fn ban(&self) -> (Option<BanState>, bool) {
        let entry = self.entry(BanState::IDENTITY, BanState::KIND);
        let state = entry.and_then(|entry| BanState::from_numbers(&entry.numbers()?));
        (state, entry.is_some() && state.is_none())
    }

    /// The value after a step, with the entries of other versions that are still useful, and the book
    /// if it has changed.
    fn write(
        &self,
        limit: &Limit,
        part: usize,
        (held, book): (&[Option<Held>], Option<&Book>),
        step: &Step,
        now: Now,
    ) -> Write {
        let mut value = encode(limit, part, held);
        let mut life = step.lives.get(part).copied().unwrap_or(0);
        let ban = book.and_then(Book::ban).zip(limit.ban(part));
        if let Some((state, ban)) = ban {
            let body = Cow::Owned(bytes_of(&state.numbers()));
            let (kind, identity) = (BanState::KIND, BanState::IDENTITY);
            let entry = Entry { kind, identity, retention: state.retention(ban), body };
            life = life.max(state.useful_until(ban).saturating_sub(now.micros));
            entry.write(&mut value);
        }
        if let Some(book) = book {
            let holds = book.has_records().then(|| (Book::KIND, Book::IDENTITY, book.write()));
            let repeats = book.repeats();
            let repeats = repeats.map(|it| (Repeats::KIND, Repeats::IDENTITY, it.write()));
            let line = book.line().map(|it| (Line::KIND, Book::IDENTITY, it.write()));
            let tickets = (!book.tickets().is_empty())
                .then(|| (Tickets::KIND, Book::IDENTITY, book.tickets().write()));
            for (kind, identity, body) in [holds, repeats, line, tickets].into_iter().flatten() {
                let body = Cow::Owned(body);
                let entry = Entry { kind, identity, retention: 0, body };
                life = life.max(entry.useful_until().saturating_sub(now.micros));
                entry.write(&mut value);
            }
        }
        let is_ban = |entry: &Entry<'_>| {
            let is_ban = entry.kind == BanState::KIND && entry.identity == BanState::IDENTITY;
            is_ban && limit.ban(part).is_some()
        };
        let is_ours = |entry: &Entry<'_>| {
            let is_book = [Book::KIND, Line::KIND, Tickets::KIND].contains(&entry.kind)
                && entry.identity == Book::IDENTITY;
            (is_book || is_ban(entry) || entry.is_of_repeats()) && book.is_some()
                || limit.members().iter().any(|member| {
                    let rule = member.policy().rule();
                    member.part() == part
                        && member.identity() == entry.identity
                        && (rule.layout().kind() == entry.kind
                            || [rule.leased_kind(), rule.held_kind()].contains(&Some(entry.kind)))
                })
        };
        for entry in self.entries.iter().filter(|entry| !is_ours(entry)) {
            let left = entry.useful_until().saturating_sub(now.micros);
            if (left > 0 || is_ban(entry)) && (!step.forgets() || entry.is_of_repeats()) {
                entry.write(&mut value);
                life = life.max(left);
            }
        }
        if value.is_empty() { Write::Remove } else { Write::Set { value, life } }
    }
}

impl<'v> Entry<'v> {
    /// The entry for a policy's state.
    #[must_use]
    pub fn of(member: &Member, state: &State) -> Entry<'static> {
        let rule = member.policy().rule();
        let mut numbers = Vec::new();
        state.write(&mut numbers);
        Entry::new(rule.layout().kind(), member, retention(rule.retention()), &numbers)
    }

    /// The entry for a policy's state of which units are leased or held.
    #[must_use]
    pub fn of_leased(member: &Member, leased: &Leased) -> Entry<'static> {
        let rule = member.policy().rule();
        let mut numbers = Vec::new();
        leased.write(&mut numbers);
        let kind = match leased.bound {
            Some(_) => rule.held_kind(),
            None => rule.leased_kind(),
        };
        let kind = kind.unwrap_or_else(|| rule.layout().kind());
        Entry::new(kind, member, leased_retention(retention(rule.retention())), &numbers)
    }

    fn new(kind: u8, member: &Member, retention: u8, numbers: &[u64]) -> Entry<'static> {
        let body = Cow::Owned(bytes_of(numbers));
        Entry { kind, identity: member.identity(), retention, body }
    }

    /// The state of a policy; `None` if the numbers are not a valid state.
    #[must_use]
    pub fn state(&self, member: &Member) -> Option<State> {
        member.policy().rule().read(&self.numbers()?)
    }

    /// The numbers; `None` if they are truncated or above 2^53 − 1.
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

    /// The first entry of a value and the rest; `None` if there is no whole entry.
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

    /// Whether it is about requests with an id, which a reset leaves alone.
    fn is_of_repeats(&self) -> bool {
        self.kind == Repeats::KIND && self.identity == Repeats::IDENTITY
    }

    /// Until when the entry is useful to a program that knows its policy, in µs since the epoch.
    fn useful_until(&self) -> u64 {
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

/// The smallest `k` for which 2^k µs are at least `micros`.
#[must_use]
pub const fn retention(micros: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
    {
        (64 - micros.saturating_sub(1).leading_zeros()) as u8
    }
}

/// The retention of a state of which units are leased: longer by the longest lease.
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
