//! Slots: each key belongs to one of 16,384 slots of a cluster.

use std::ops::RangeInclusive;

use crc::{CRC_16_XMODEM, Crc, Table};

/// Number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

const CRC: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// Returns the slot of a key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    CRC.checksum(tag(key)) % SLOTS
}

/// Keys of different slots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Crossing;

/// Returns the slot that all of these keys have; 0 if there are none.
pub(crate) fn slot_of_all<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Result<u16, Crossing> {
    let mut slots = keys.into_iter().map(slot_of);
    let Some(first) = slots.next() else { return Ok(0) };
    if slots.all(|slot| slot == first) { Ok(first) } else { Err(Crossing) }
}

/// Returns the part of a key that determines its slot. That is the content of the first pair of braces, or
/// the whole key if this content is empty or missing.
fn tag(key: &[u8]) -> &[u8] {
    let held = || {
        let from = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[from..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[from..from + length])
    };
    held().unwrap_or(key)
}

/// Formats slots as people write them, in order: `0-5460, 9000`.
pub(crate) fn shown(slots: impl IntoIterator<Item = u16>) -> String {
    let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some(last) if last.end() + 1 == slot => *last = *last.start()..=slot,
            _ => ranges.push(slot..=slot),
        }
    }
    let texts = ranges.iter().map(|range| match (range.start(), range.end()) {
        (start, end) if start == end => start.to_string(),
        (start, end) => format!("{start}-{end}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_published_examples() {
        assert_eq!(CRC.checksum(b"123456789"), 0x31C3);
        for (key, slot) in [(&b"foo"[..], 12_182), (b"bar", 5_061), (b"hello", 866), (b"", 0)] {
            assert_eq!(slot_of(key), slot, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn what_the_first_braces_hold_says_where_a_key_belongs() {
        for (key, held) in [
            (&b"sg:limit:{alice}"[..], &b"alice"[..]),
            (b"{a}{b}", b"a"),
            (b"x{{b}}y", b"{b"),
            (b"x{}{b}", b"x{}{b}"),
            (b"x{b", b"x{b"),
            (b"}x{b}", b"b"),
        ] {
            assert_eq!(tag(key), held, "{}", key.escape_ascii());
        }
        assert_eq!(slot_of_all([&b"1{a}"[..], b"{a}2"]), Ok(slot_of(b"a")));
        assert_eq!(slot_of_all([&b"1{a}"[..], b"{b}2"]), Err(Crossing));
    }

    #[test]
    fn slots_are_shown_as_ranges() {
        assert_eq!(shown([0, 1, 2, 7, 9, 10]), "0-2, 7, 9-10");
        assert_eq!(shown([]), "");
    }
}
