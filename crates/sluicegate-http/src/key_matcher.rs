//! Entries of allow and block lists.

mod read;
mod set;

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::cidr::Cidr;
use crate::key::Key;

pub use set::KeySet;

/// One entry of a list of keys: a pattern that keys match.
///
/// | text | matches |
/// | --- | --- |
/// | `alice` | this key |
/// | `internal-*` | every key with this prefix; `*` alone matches all keys |
/// | `10.0.0.0/8`, `192.0.2.1`, `2001:db8::/32` | every key with a client's network in this range |
///
/// `\*` and `\\` stand for `*` and `\`, and `\xNN` for the byte with these two hexadecimal digits. A
/// `*` anywhere but at the end is an error. A joined key is written as its bytes: `alice|GET`.
///
/// A range matches only keys made from a client's address: those of the component `ip`, alone or
/// joined with others. It never matches a user whose name looks like an address. IPv6 clients are
/// limited as networks, by default of 64 bits, so a range with a longer prefix matches none of them.
///
/// ```
/// use sluicegate_http::{Key, KeyMatcher};
///
/// let entry: KeyMatcher = "internal-*".parse()?;
/// assert!(entry.matches(&Key::new("internal-batch")));
/// assert!(!entry.matches(&Key::new("external")));
///
/// let office: KeyMatcher = "2001:db8::/32".parse()?;
/// assert!(office.matches(&Key::of_network("2001:db8:7::/64".parse()?)));
/// assert!(!office.matches(&Key::new("2001:db8:7::/64")));
///
/// let error = "a*b".parse::<KeyMatcher>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r"`a*b` has a `*` that isn't at the end: write `\*` for the character"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyMatcher(OwnedPattern);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum OwnedPattern {
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Range(Cidr),
}

impl KeyMatcher {
    /// The maximum length of an entry, in bytes.
    pub const MAX_BYTES: usize = 1_024;

    /// Matches the key with these bytes.
    #[must_use]
    pub fn exact(bytes: impl AsRef<[u8]>) -> Self {
        Self(OwnedPattern::Exact(Key::new(bytes).as_bytes().into()))
    }

    /// Matches every key that begins with these bytes.
    #[must_use]
    pub fn prefix(bytes: impl AsRef<[u8]>) -> Self {
        Self(OwnedPattern::Prefix(Key::new(bytes).as_bytes().into()))
    }

    /// Matches every key with a client's network in `range`.
    #[must_use]
    pub const fn range(range: Cidr) -> Self {
        Self(OwnedPattern::Range(range))
    }

    /// The pattern of the entry, for building an index of many entries.
    #[must_use]
    pub const fn pattern(&self) -> Pattern<'_> {
        match &self.0 {
            OwnedPattern::Exact(bytes) => Pattern::Exact(bytes),
            OwnedPattern::Prefix(bytes) => Pattern::Prefix(bytes),
            OwnedPattern::Range(range) => Pattern::Range(*range),
        }
    }

    /// Whether `key` matches the entry.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        match &self.0 {
            OwnedPattern::Exact(bytes) => key.as_bytes() == &**bytes,
            OwnedPattern::Prefix(bytes) => key.as_bytes().starts_with(bytes),
            OwnedPattern::Range(range) => {
                key.network().is_some_and(|network| range.covers(network))
            }
        }
    }
}

/// The pattern of a [`KeyMatcher`]: the keys that it matches.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Pattern<'m> {
    /// The key with these [bytes](Key::as_bytes).
    Exact(&'m [u8]),
    /// Every key that begins with these bytes.
    Prefix(&'m [u8]),
    /// Every key with a client's network in this range.
    Range(Cidr),
}

impl FromStr for KeyMatcher {
    type Err = KeyMatcherError;

    fn from_str(text: &str) -> Result<Self, KeyMatcherError> {
        read::matcher(text).map_err(|(at, problem)| KeyMatcherError {
            column: text.get(..at).map_or(0, |before| before.chars().count()) + 1,
            message: format!("`{}` {problem}", read::excerpt(text)),
        })
    }
}

impl fmt::Display for KeyMatcher {
    /// The text that parses as the entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            OwnedPattern::Exact(bytes) => f.write_str(&read::escaped(bytes)),
            OwnedPattern::Prefix(bytes) => write!(f, "{}*", read::escaped(bytes)),
            OwnedPattern::Range(range) => write!(f, "{range}"),
        }
    }
}

/// An entry of a list failed to parse. The message says what to write instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyMatcherError {
    column: usize,
    message: String,
}

impl KeyMatcherError {
    /// The column where the part at fault begins, in characters from 1.
    #[must_use]
    pub const fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for KeyMatcherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for KeyMatcherError {}

#[cfg(test)]
mod tests;
