//! The newest records in a fixed number of bytes.

use sluicegate_core::Cost;

/// A decision as it is recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Record<'k> {
    /// Time of the decision, in µs since the epoch.
    pub(super) time: u64,
    /// Number of the limit's name.
    pub(super) limit: u32,
    pub(super) key: &'k [u8],
    pub(super) cost: RecordedCost,
    pub(super) flags: Flags,
}

/// The cost of a recorded request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RecordedCost {
    /// None is known: each policy's own cost.
    Own,
    /// One for all policies.
    Same(Cost),
    /// A different one for some policies.
    Each,
}

/// The facts of a recorded decision.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Flags {
    pub(crate) was_denied: bool,
    pub(crate) is_take: bool,
    /// Whether no policy counted the request.
    pub(crate) is_bypass: bool,
}

/// A ring of records. The oldest ones give way to new ones. A record has some 10 bytes and its key.
///
/// A record begins with the number of its further bytes. Then come the time since the record before, the flags, the
/// limit, the cost unless it is 1, and the key. Numbers are in base 128, so small ones take a byte.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Box<[u8]>,
    /// Index of the oldest byte.
    start: usize,
    used: usize,
    /// Time of the record before the oldest one, and of the newest.
    before: u64,
    last: u64,
    /// Time of the latest record that gave way.
    dropped: Option<u64>,
}

/// The bits of a record's flags.
const DENIED: u8 = 1;
const TAKE: u8 = 1 << 1;
const BYPASS: u8 = 1 << 2;
const OWN_COST: u8 = 1 << 3;
const EACH_COST: u8 = 1 << 4;
const ONE: u8 = 1 << 5;

/// Maximum length of the numbers before a key: time, flags, limit and cost.
const MOST_HEAD: usize = 10 + 1 + 5 + 8;

impl Ring {
    /// Makes a ring of at least 1 KiB.
    pub(super) fn new(bytes: usize) -> Self {
        let bytes = vec![0; bytes.max(1 << 10)].into_boxed_slice();
        Self { bytes, start: 0, used: 0, before: 0, last: 0, dropped: None }
    }

    /// Adds a record. Returns `false` if it is larger than a quarter of the ring.
    pub(super) fn add(&mut self, record: &Record<'_>) -> bool {
        let mut head = [0; MOST_HEAD];
        let mut length = 0;
        let mut number = |number: u64| length += write_number(&mut head[length..], number);
        let Flags { was_denied, is_take, is_bypass } = record.flags;
        let (cost, cost_flag) = match record.cost {
            RecordedCost::Own => (None, OWN_COST),
            RecordedCost::Each => (None, EACH_COST),
            RecordedCost::Same(Cost::ONE) => (None, ONE),
            RecordedCost::Same(cost) => (Some(cost.get()), 0),
        };
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let flags = bit(was_denied, DENIED) | bit(is_take, TAKE) | bit(is_bypass, BYPASS);
        let is_first = self.used == 0;
        let before = if is_first { record.time } else { self.last };
        number(zigzag(record.time.wrapping_sub(before)));
        number(u64::from(flags | cost_flag));
        number(u64::from(record.limit));
        if let Some(cost) = cost {
            number(cost);
        }
        let size = length + record.key.len();
        let mut prefix = [0; 10];
        let prefix_length = write_number(&mut prefix, u64::try_from(size).unwrap_or(u64::MAX));
        let all = prefix_length + size;
        if all > self.bytes.len() / 4 {
            return false;
        }
        while self.bytes.len() - self.used < all {
            self.drop_oldest();
        }
        if is_first || self.used == 0 {
            // The ring may have become empty: then the time before is the last one.
            self.before = before;
        }
        self.put(&prefix[..prefix_length]);
        self.put(&head[..length]);
        self.put(record.key);
        self.last = record.time;
        true
    }

    /// Returns a copy of the records, for a reader that works without the lock of the ring.
    pub(super) fn copy(&self) -> Copied {
        let (first, second) = self.parts(self.start, self.used);
        let bytes = [first, second].concat();
        let Self { before, dropped, .. } = *self;
        Copied { bytes, before, dropped }
    }

    fn put(&mut self, new: &[u8]) {
        let (size, end) = (self.bytes.len(), self.start + self.used);
        let end = if end >= size { end - size } else { end };
        let (first, second) = new.split_at(new.len().min(size - end));
        self.bytes[end..end + first.len()].copy_from_slice(first);
        self.bytes[..second.len()].copy_from_slice(second);
        self.used += new.len();
    }

    /// Returns `length` bytes from an index, in two parts if they go over the end.
    fn parts(&self, start: usize, length: usize) -> (&[u8], &[u8]) {
        let first = length.min(self.bytes.len() - start);
        (&self.bytes[start..start + first], &self.bytes[..length - first])
    }

    fn drop_oldest(&mut self) {
        // The numbers of a record's size and time.
        let mut beginning = [0; 20];
        let length = self.used.min(beginning.len());
        let (first, second) = self.parts(self.start, length);
        beginning[..first.len()].copy_from_slice(first);
        beginning[first.len()..length].copy_from_slice(second);
        let mut rest = &beginning[..length];
        let size = read_number(&mut rest).and_then(|size| usize::try_from(size).ok());
        let prefix = length - rest.len();
        let since = read_number(&mut rest);
        let (Some(size), Some(since)) = (size, since) else {
            // Unreachable: every record was written whole.
            (self.start, self.used) = (0, 0);
            return;
        };
        let time = self.before.wrapping_add(unzigzag(since));
        self.before = time;
        self.dropped = self.dropped.max(Some(time));
        let all = (prefix + size).min(self.used);
        self.used -= all;
        self.start = (self.start + all) % self.bytes.len();
    }
}

/// The records of a ring at one moment.
#[derive(Debug)]
pub(super) struct Copied {
    bytes: Vec<u8>,
    before: u64,
    /// Time of the latest record that gave way.
    pub(super) dropped: Option<u64>,
}

impl Copied {
    /// Returns the records, the oldest first.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let (mut rest, mut time) = (&self.bytes[..], self.before);
        std::iter::from_fn(move || {
            let size = usize::try_from(read_number(&mut rest)?).ok()?;
            let (mut record, later) = rest.split_at_checked(size)?;
            rest = later;
            time = time.wrapping_add(unzigzag(read_number(&mut record)?));
            let flags = u8::try_from(read_number(&mut record)?).ok()?;
            let limit = u32::try_from(read_number(&mut record)?).ok()?;
            let cost = if flags & OWN_COST != 0 {
                RecordedCost::Own
            } else if flags & EACH_COST != 0 {
                RecordedCost::Each
            } else if flags & ONE != 0 {
                RecordedCost::Same(Cost::ONE)
            } else {
                RecordedCost::Same(Cost::new(read_number(&mut record)?).ok()?)
            };
            let flags = Flags {
                was_denied: flags & DENIED != 0,
                is_take: flags & TAKE != 0,
                is_bypass: flags & BYPASS != 0,
            };
            Some(Record { time, limit, key: record, cost, flags })
        })
    }
}

/// Maps a difference, which may be negative, to a number that is small if the difference is.
const fn zigzag(difference: u64) -> u64 {
    let sign = 0_u64.wrapping_sub(difference >> 63);
    (difference << 1) ^ sign
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ 0_u64.wrapping_sub(number & 1)
}

/// Writes a number in base 128, the lowest digit first. Returns its length, at most 10.
fn write_number(bytes: &mut [u8], mut number: u64) -> usize {
    for (index, byte) in bytes.iter_mut().enumerate() {
        let digit = (number & 0x7f) as u8;
        number >>= 7;
        *byte = if number > 0 { digit | 0x80 } else { digit };
        if number == 0 {
            return index + 1;
        }
    }
    bytes.len()
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_and_differences_are_read_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = [0; 10];
            let length = write_number(&mut bytes, number);
            let mut rest = &bytes[..length];
            assert_eq!((read_number(&mut rest), rest.len()), (Some(number), 0));
            assert_eq!(unzigzag(zigzag(number)), number);
        }
        assert!(zigzag(0_u64.wrapping_sub(3)) < 8);
    }

    #[test]
    fn a_record_too_large_is_refused_and_changes_nothing() {
        let mut ring = Ring::new(1 << 10);
        let flags = Flags::default();
        let record = |key| Record { time: 5, limit: 0, key, cost: RecordedCost::Own, flags };
        assert!(ring.add(&record(b"alice")));
        assert!(!ring.add(&record(&[b'x'; 300])));
        let copied = ring.copy();
        assert_eq!(copied.records().map(|record| record.key.len()).collect::<Vec<_>>(), [5]);
        assert_eq!(copied.dropped, None);
    }

    type Given = (u64, u32, Vec<u8>, u64, u8);

    fn record((time, limit, key, cost, flags): &Given) -> Record<'_> {
        let cost = match cost {
            0 => RecordedCost::Own,
            1 => RecordedCost::Each,
            cost => RecordedCost::Same(Cost::new(cost - 1).unwrap()),
        };
        let flags =
            Flags { was_denied: flags & 1 > 0, is_take: flags & 2 > 0, is_bypass: flags & 4 > 0 };
        Record { time: *time, limit: *limit, key, cost, flags }
    }

    proptest! {
        /// The ring has 1 KiB, so most runs go around it several times.
        #[test]
        fn a_ring_has_the_newest_records_given(
            given in prop::collection::vec(
                (
                    prop_oneof![0_u64..1_000, any::<u64>()],
                    prop_oneof![0_u32..3, any::<u32>()],
                    prop::collection::vec(any::<u8>(), 0..200),
                    prop_oneof![0_u64..4, 0_u64..1 << 53],
                    0_u8..8,
                ),
                0..120,
            ),
        ) {
            let mut ring = Ring::new(1 << 10);
            for (index, given_now) in given.iter().enumerate() {
                prop_assert!(ring.add(&record(given_now)));
                let copied = ring.copy();
                let found: Vec<_> = copied.records().collect();
                let dropped = index + 1 - found.len();
                prop_assert_eq!(copied.dropped.is_some(), dropped > 0);
                let newest: Vec<_> = given[dropped..=index].iter().map(record).collect();
                prop_assert_eq!(&found, &newest);
                let latest = given[..dropped].iter().map(|(time, ..)| *time).max();
                prop_assert_eq!(copied.dropped, latest);
                // It drops no more than the new record needs.
                let needed: usize = newest.iter().map(|record| record.key.len() + 26).sum();
                prop_assert!(dropped == 0 || needed + 226 > 1 << 10);
            }
        }
    }
}
