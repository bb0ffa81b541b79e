//! Every key of a recording, once, by number.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use sluicegate_core::printable;

/// The separator of the fields in a joined key. It ends a line, so no field contains it, and
/// different fields never form the same key.
pub(crate) const SEPARATOR: char = '\n';

/// Keys in the order of their first appearance, all in one buffer.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// End of each key in `bytes`.
    ends: Vec<usize>,
    numbers: HashTable<Entry>,
    hasher: DefaultHashBuilder,
}

/// A key in the table. The entry contains the beginning of the key, so looking up a short key, such
/// as an address, reads one place in memory.
#[derive(Clone, Copy)]
struct Entry {
    number: u32,
    head: Head,
}

/// The beginning of a key, padded with zeros, and the key's length, capped at what the field can
/// hold.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Head([u8; HEAD], u8);

/// Number of a key's bytes in its entry.
const HEAD: usize = 19;

impl Head {
    fn new(key: &[u8]) -> Self {
        let mut head = [0; HEAD];
        let count = key.len().min(HEAD);
        head[..count].copy_from_slice(&key[..count]);
        Self(head, u8::try_from(key.len()).unwrap_or(u8::MAX))
    }
}

impl Keys {
    /// Returns the number of a key, adding it if it is new. Returns `None` if there are too many
    /// keys to number.
    pub(crate) fn number(&mut self, key: &[u8]) -> Option<u32> {
        let Self { bytes, ends, numbers, hasher } = self;
        let hash = hasher.hash_one(key);
        let head = Head::new(key);
        let is_key = |other: &Entry| {
            other.head == head && (key.len() <= HEAD || get(bytes, ends, other.number) == key)
        };
        if let Some(entry) = numbers.find(hash, is_key) {
            return Some(entry.number);
        }
        let number = u32::try_from(ends.len()).ok()?;
        bytes.extend_from_slice(key);
        ends.push(bytes.len());
        let entry = Entry { number, head };
        numbers.insert_unique(hash, entry, |other| hasher.hash_one(get(bytes, ends, other.number)));
        Some(number)
    }

    /// Returns the key with a number from [`Keys::number`].
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        get(&self.bytes, &self.ends, number)
    }

    /// Returns the number of keys.
    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }
}

fn get<'k>(bytes: &'k [u8], ends: &[usize], number: u32) -> &'k [u8] {
    let index = number as usize;
    let start = index.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start..ends[index]]
}

/// Formats a key as text. Bytes that aren't UTF-8 are escaped. The fields of a key that `is_joined`
/// are separated by `+`.
pub(crate) fn text(key: &[u8], is_joined: bool) -> String {
    let mut text = String::with_capacity(key.len());
    for chunk in key.utf8_chunks() {
        text.extend(chunk.valid().chars().map(|character| match character {
            SEPARATOR if is_joined => '+',
            other => other,
        }));
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    text
}

/// Makes [`text`] safe to print on a terminal, in at most `most` characters.
pub(crate) fn shown(text: &str, most: usize) -> String {
    let mut shown = printable(text);
    if shown.is_empty() {
        shown.push_str("(empty)");
    }
    match shown.char_indices().nth(most) {
        Some((end, _)) => shown[..end].chars().chain(['…']).collect(),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_number() {
        let mut keys = Keys::default();
        for round in 0..2 {
            let long = [b'k'; 300];
            for (index, key) in [
                &b""[..],
                b"a",
                b"aa",
                b"b\0",
                &long[..HEAD],
                &long[..=HEAD],
                &long[..255],
                &long[..256],
                &long,
            ]
            .into_iter()
            .enumerate()
            {
                let number = keys.number(key).unwrap();
                assert_eq!((number as usize, keys.get(number)), (index, key), "round {round}");
            }
        }
        assert_eq!(keys.len(), 9);
    }

    #[test]
    fn a_hostile_key_is_shown_as_harmless_text() {
        let shown = |key: &[u8], most| shown(&text(key, true), most);
        assert_eq!(shown(b"\x1b[31m\xff\r", 60), r"\u{1b}[31m\xff\r");
        assert_eq!(shown("é\u{202e}x".as_bytes(), 60), r"é\u{202e}x");
        assert_eq!(shown(b"10.0.0.1\nGET", 60), "10.0.0.1+GET");
        assert_eq!(text(b"a\nb", false), "a\nb");
        assert_eq!(shown(b"abcdef", 3), "abc…");
        assert_eq!(shown(b"", 60), "(empty)");
    }
}
