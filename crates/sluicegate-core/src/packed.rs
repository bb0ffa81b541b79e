//! The stored format: all small states of one subject in one string.
//!
//! A value is a sequence of entries, in no particular order:
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | kind: which algorithm family, and which version of its layout |
//! | 4 | identity: a hash of the policy's name, algorithm and window |
//! | 1 | retention `k`: the entry is of use until its newest time + 2^k µs |
//! | 2 | length of what follows, only for kinds from 0x80 up |
//! | … | the numbers of the state, 7 bytes each, big-endian; the newest time is the first |
//!
//! | kind | state | numbers |
//! | --- | --- | --- |
//! | 0x01 | bucket | newest, deficit, unit |
//! | 0x02 | warm-up | newest, debt, deficit, unit |
//! | 0x03 | fixed window | newest, start, used |
//! | 0x04 | two-cell counter | newest, start, previous, current |
//! | 0x05 | log with entries in a key of its own | newest, base, total, first, count |
//! | 0x81 | ring, entries included | newest, base, then stamp and total per entry |
//!
//! A layout never changes under its kind: a new layout takes a new kind. Kinds below 0x80 are
//! fixed in length for ever; a reader skips the others by their length, so an older program
//! keeps what a newer one has written.

use std::collections::VecDeque;

use crate::kernel::{bucket, counter, log, warm_up, window};
use crate::limit::Identity;
use crate::number::MAX_EXACT;

/// A state as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum State {
    /// Token bucket, GCRA, leaky bucket, shaper, smooth bursty.
    Bucket(bucket::State),
    /// Two-cell counter.
    Counter(counter::State),
    /// A log whose entries are in a key of their own.
    LogHead(LogHead),
    /// A ring with its entries.
    Ring(log::State),
    /// Smooth warm-up.
    WarmUp(warm_up::State),
    /// Fixed window.
    Window(window::State),
}

/// What is kept beside the entries of a log: they are `count` pairs of stamp and total, of which
/// the first `first` have left already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogHead {
    /// The newest admitted time, in µs.
    pub newest: u64,
    /// The running total before the first entry that counts.
    pub base: u64,
    /// The running total of the last entry.
    pub total: u64,
    /// Entries at the front that have left.
    pub first: u64,
    /// Entries in all.
    pub count: u64,
}

/// The kinds of entries.
pub mod kind {
    /// Bucket family.
    pub const BUCKET: u8 = 0x01;
    /// Warm-up.
    pub const WARM_UP: u8 = 0x02;
    /// Fixed window.
    pub const WINDOW: u8 = 0x03;
    /// Two-cell counter.
    pub const COUNTER: u8 = 0x04;
    /// Log with entries in a key of their own.
    pub const LOG_HEAD: u8 = 0x05;
    /// Ring with its entries.
    pub const RING: u8 = 0x81;
}

/// One entry of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Whose state it is.
    pub identity: Identity,
    /// It is of use until its newest time + 2^retention µs.
    pub retention: u8,
    /// The state.
    pub state: State,
}

/// What a value holds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Decoded {
    /// The entries that can be read, in the order they stand.
    pub entries: Vec<Entry>,
    /// Whether something made no sense: an entry whose numbers no state can have counts as
    /// absent, and so does everything from the first byte on that begins no entry.
    pub discarded: bool,
}

impl Decoded {
    /// The state of an identity and kind.
    #[must_use]
    pub fn state(&self, identity: Identity, kind: u8) -> Option<&State> {
        let theirs = |entry: &&Entry| entry.identity == identity && entry.state.kind() == kind;
        self.entries.iter().rev().find(theirs).map(|entry| &entry.state)
    }
}

impl State {
    /// The kind of its entry.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Bucket(_) => kind::BUCKET,
            Self::Counter(_) => kind::COUNTER,
            Self::LogHead(_) => kind::LOG_HEAD,
            Self::Ring(_) => kind::RING,
            Self::WarmUp(_) => kind::WARM_UP,
            Self::Window(_) => kind::WINDOW,
        }
    }

    /// The newest admitted time, in microseconds since the epoch.
    #[must_use]
    pub const fn newest(&self) -> u64 {
        match self {
            Self::Bucket(state) => state.newest,
            Self::Counter(state) => state.newest,
            Self::LogHead(head) => head.newest,
            Self::Ring(state) => state.newest,
            Self::WarmUp(state) => state.newest,
            Self::Window(state) => state.newest,
        }
    }
}

const HEADER: usize = 6;
const NUMBER: usize = 7;

/// Reads all entries of a value. Those of an unknown kind whose length is known are passed over.
#[must_use]
pub fn decode(value: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let mut rest = value;
    while !rest.is_empty() {
        let Some((header, body, after)) = split_entry(rest) else {
            decoded.discarded = true;
            break;
        };
        match decode_state(header[0], body) {
            Ok(Some(state)) => decoded.entries.push(Entry {
                identity: Identity::from_bytes([header[1], header[2], header[3], header[4]]),
                retention: header[5],
                state,
            }),
            Ok(None) => {}
            Err(()) => decoded.discarded = true,
        }
        rest = after;
    }
    decoded
}

/// Header, body and what follows of the first entry; `None` when there is no whole entry.
fn split_entry(value: &[u8]) -> Option<(&[u8; HEADER], &[u8], &[u8])> {
    let (header, rest) = value.split_first_chunk::<HEADER>()?;
    let (length, rest) = if header[0] >= 0x80 {
        let (length, rest) = rest.split_first_chunk::<2>()?;
        // Every state begins with its newest time.
        (Some(usize::from(u16::from_be_bytes(*length))).filter(|&length| length >= NUMBER)?, rest)
    } else {
        (NUMBER * numbers_of(header[0])?, rest)
    };
    let (body, rest) = rest.split_at_checked(length)?;
    Some((header, body, rest))
}

/// Writes an entry to the end of `value`.
pub fn encode_entry(entry: &Entry, value: &mut Vec<u8>) {
    let numbers: Vec<u64> = match &entry.state {
        State::Bucket(state) => vec![state.newest, state.deficit, state.unit],
        State::WarmUp(state) => vec![state.newest, state.debt, state.deficit, state.unit],
        State::Window(state) => vec![state.newest, state.start, state.used],
        State::Counter(state) => vec![state.newest, state.start, state.previous, state.current],
        State::LogHead(head) => vec![head.newest, head.base, head.total, head.first, head.count],
        State::Ring(state) => {
            let entries = state.entries.iter().flat_map(|entry| [entry.stamp, entry.total]);
            [state.newest, state.base].into_iter().chain(entries).collect()
        }
    };
    let kind = entry.state.kind();
    value.push(kind);
    value.extend_from_slice(&entry.identity.to_bytes());
    value.push(entry.retention);
    if kind >= 0x80 {
        let length = u16::try_from(numbers.len() * NUMBER).unwrap_or(u16::MAX);
        value.extend_from_slice(&length.to_be_bytes());
    }
    for number in numbers {
        value.extend_from_slice(&number.to_be_bytes()[1..]);
    }
}

/// The smallest `k` for which 2^k µs are at least `micros`.
#[must_use]
pub const fn retention(micros: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
    {
        (64 - micros.saturating_sub(1).leading_zeros()) as u8
    }
}

const fn numbers_of(kind: u8) -> Option<usize> {
    match kind {
        kind::BUCKET | kind::WINDOW => Some(3),
        kind::WARM_UP | kind::COUNTER => Some(4),
        kind::LOG_HEAD => Some(5),
        _ => None,
    }
}

fn decode_state(kind: u8, body: &[u8]) -> Result<Option<State>, ()> {
    if kind == kind::RING {
        return decode_ring(body).map(|state| Some(State::Ring(state)));
    }
    let Some(count) = numbers_of(kind) else {
        return Ok(None);
    };
    let mut numbers = [0; 5];
    for (number, bytes) in numbers.iter_mut().zip(body.chunks_exact(NUMBER).take(count)) {
        *number = read_number(bytes)?;
    }
    let [newest, b, c, d, e] = numbers;
    let state = match kind {
        kind::BUCKET => State::Bucket(bucket::State { newest, deficit: b, unit: nonzero(c)? }),
        kind::WARM_UP => {
            State::WarmUp(warm_up::State { newest, debt: b, deficit: c, unit: nonzero(d)? })
        }
        kind::WINDOW => {
            ordered(b, newest)?;
            State::Window(window::State { newest, start: b, used: c })
        }
        kind::COUNTER => {
            ordered(b, newest)?;
            State::Counter(counter::State { newest, start: b, previous: c, current: d })
        }
        _ => {
            ordered(b, c)?;
            ordered(d, e)?;
            // No entry is empty: units are left as long as entries are.
            if (b == c) != (d == e) {
                return Err(());
            }
            State::LogHead(LogHead { newest, base: b, total: c, first: d, count: e })
        }
    };
    Ok(Some(state))
}

fn decode_ring(body: &[u8]) -> Result<log::State, ()> {
    if !body.len().is_multiple_of(2 * NUMBER) || body.is_empty() {
        return Err(());
    }
    let newest = read_number(&body[..NUMBER])?;
    let base = read_number(&body[NUMBER..2 * NUMBER])?;
    decode_entries(newest, base, &body[2 * NUMBER..]).ok_or(())
}

/// The state of a log whose entries, pairs of stamp and running total, are these bytes; `None`
/// when no log has such entries.
#[must_use]
pub fn decode_entries(newest: u64, base: u64, block: &[u8]) -> Option<log::State> {
    let pairs = block.chunks_exact(2 * NUMBER);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let mut entries = VecDeque::with_capacity(pairs.len());
    let (mut stamp_before, mut total_before) = (None, base);
    for pair in pairs {
        let stamp = read_number(&pair[..NUMBER]).ok()?;
        let total = read_number(&pair[NUMBER..]).ok()?;
        if stamp_before >= Some(stamp) || total <= total_before || stamp > newest {
            return None;
        }
        (stamp_before, total_before) = (Some(stamp), total);
        entries.push_back(log::Entry { stamp, total });
    }
    Some(log::State { newest, base, entries })
}

fn read_number(bytes: &[u8]) -> Result<u64, ()> {
    let number = bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    if number > MAX_EXACT { Err(()) } else { Ok(number) }
}

const fn nonzero(number: u64) -> Result<u64, ()> {
    if number == 0 { Err(()) } else { Ok(number) }
}

const fn ordered(less: u64, more: u64) -> Result<(), ()> {
    if less > more { Err(()) } else { Ok(()) }
}
