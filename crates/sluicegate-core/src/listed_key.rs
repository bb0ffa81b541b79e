//! A key as lists show it.

use std::fmt;

/// A key as a store lists it.
///
/// A long key is stored only as a hash. The hash doesn't reveal the key, but shows whether a given
/// key is the one.
///
/// ```
/// use sluicegate_core::ListedKey;
///
/// assert_eq!(ListedKey::of(b"alice"), ListedKey::Whole(b"alice".to_vec().into()));
/// let long = "a".repeat(100);
/// let listed = ListedKey::of(long.as_bytes());
/// assert!(matches!(listed, ListedKey::Hashed(_)));
/// assert!(listed.is(long.as_bytes()) && !listed.is(b"alice"));
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum ListedKey {
    /// The key.
    Whole(Box<[u8]>),
    /// The first 16 bytes of the BLAKE3 hash of a long key. A key is long if it has more than 64
    /// bytes, when each byte that isn't plain counts as three.
    Hashed([u8; 16]),
}

/// The longest escaped key, in bytes, that is stored verbatim; longer ones are hashed.
const MOST_BYTES: usize = 64;

impl ListedKey {
    /// Creates the entry for a key.
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        if key.len() <= MOST_BYTES && escaped_bytes(key) <= MOST_BYTES {
            return Self::Whole(key.into());
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::hash(key).as_bytes()[..16]);
        Self::Hashed(hash)
    }

    /// Returns `true` if this entry lists `key`.
    #[must_use]
    pub fn is(&self, key: &[u8]) -> bool {
        *self == Self::of(key)
    }

    /// Returns the key, if it is known.
    #[must_use]
    pub fn whole(&self) -> Option<&[u8]> {
        match self {
            Self::Whole(key) => Some(key),
            Self::Hashed(_) => None,
        }
    }

    /// Appends the key in the form used in stored key names.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Whole(key) if key.is_empty() => out.push(b'%'),
            Self::Whole(key) => {
                for &byte in key {
                    if is_plain(byte) {
                        out.push(byte);
                    } else {
                        out.push(b'%');
                        out.extend_from_slice(&hexadecimal(byte));
                    }
                }
            }
            // An escaped byte is `%` and two digits, so `%` alone and `%#` are unambiguous.
            Self::Hashed(hash) => {
                out.extend_from_slice(b"%#");
                hash.iter().for_each(|byte| out.extend_from_slice(&hexadecimal(*byte)));
            }
        }
    }

    /// Reads a key from a stored key name; `None` if no key has this form.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let key = match text {
            b"%" => Self::Whole(Box::default()),
            [b'%', b'#', digits @ ..] => {
                let bytes: Vec<u8> = digits.chunks(2).map(byte_of).collect::<Option<_>>()?;
                Self::Hashed(bytes.try_into().ok()?)
            }
            mut rest => {
                let mut key = Vec::with_capacity(rest.len());
                while let Some((&first, others)) = rest.split_first() {
                    rest = others;
                    key.push(if first == b'%' {
                        let (digits, others) = rest.split_at_checked(2)?;
                        rest = others;
                        byte_of(digits)?
                    } else {
                        first
                    });
                }
                Self::Whole(key.into())
            }
        };
        // A key can be written in several ways; only one is canonical.
        let mut written = Vec::with_capacity(text.len());
        key.write(&mut written);
        (written == text).then_some(key)
    }

    /// Returns its size on the heap, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.whole().map_or(0, <[u8]>::len)
    }

    /// The largest size of any listed key on the heap, in bytes.
    pub const MOST_HEAP_BYTES: usize = MOST_BYTES;
}

fn is_plain(byte: u8) -> bool {
    // The key is inside the only braces, so colons can stay.
    byte.is_ascii_graphic() && !b"%{}".contains(&byte)
}

fn escaped_bytes(key: &[u8]) -> usize {
    key.iter().map(|byte| if is_plain(*byte) { 1 } else { 3 }).sum()
}

pub(crate) fn byte_of(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let [high, low] = *digits else { return None };
    Some(digit(high)? << 4 | digit(low)?)
}

pub(crate) fn hexadecimal(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

impl fmt::Display for ListedKey {
    /// Prints text as it is and escapes the other bytes; prints a hash as its digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(key) => match std::str::from_utf8(key) {
                Ok(text) => f.write_str(text),
                Err(_) => write!(f, "{}", key.escape_ascii()),
            },
            Self::Hashed(hash) => write!(f, "{:032x}", u128::from_be_bytes(*hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_key_reads_back_from_its_stored_name(key in prop::collection::vec(any::<u8>(), 0..90)) {
            let listed = ListedKey::of(&key);
            let mut stored = Vec::new();
            listed.write(&mut stored);
            prop_assert!(stored.len() <= MOST_BYTES);
            prop_assert_eq!(stored.iter().find(|byte| b"{}".contains(byte)), None);
            prop_assert!(listed.heap_bytes() <= ListedKey::MOST_HEAP_BYTES);
            prop_assert_eq!(listed.whole().is_none_or(|whole| whole == key), true);
            prop_assert_eq!(ListedKey::read(&stored), Some(listed));
        }

        #[test]
        fn any_bytes_are_a_stored_name_or_none(bytes in "[%#0-9a-fA-F]{0,40}|[%#{} a-z:]{0,9}") {
            if let Some(listed) = ListedKey::read(bytes.as_bytes()) {
                let mut stored = Vec::new();
                listed.write(&mut stored);
                prop_assert_eq!(stored, bytes.into_bytes());
            }
        }
    }
}
