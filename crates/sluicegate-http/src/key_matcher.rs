//! Entries of lists of keys.

mod by_length;
mod canonical;
mod fit;
mod map;
mod read;

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::cidr::Cidr;

pub use map::KeyMap;

/// One entry of a list of keys: a pattern that keys match. A [`KeyMap`] finds the entry for a key.
///
/// | text | matches |
/// | --- | --- |
/// | `alice` | this key |
/// | `internal-*` | every key that begins with this; `*` alone matches all keys |
/// | `10.0.0.0/8`, `192.0.2.1`, `2001:db8::/32` | every key with a client's network in this range |
/// | `acme\|alice` | the key with exactly these components, such as one of `header:x-tenant+user` |
/// | `acme\|*`, `*\|alice`, `acme\|a*\|10.0.0.0/8` | keys of several components that match one by one |
///
/// Components are written as they are, without the escapes of a joined key. `\|`, `\*` and `\\` stand
/// for `|`, `*` and `\`, and `\xNN` stands for the byte with these two hexadecimal digits. A `*` is
/// the end of a component, and at the end of an entry it also stands for all components that follow.
/// Keys of one component may contain `|`, and match an entry that is written like them: `auth0|1234`,
/// `auth0|*`.
///
/// A range matches only a client's address: the component `ip` of a key. It never matches a user whose
/// name looks like an address. IPv6 clients are limited as networks, by default of 64 bits, so a range
/// with a longer prefix matches none of them. A range alone matches keys of one or several components.
///
/// ```
/// use sluicegate_http::{Key, KeyExpression, KeyMap, KeyMatcher};
///
/// let entries = ["alice", "internal-*", "10.0.0.0/8", "acme|*"];
/// let entries = entries.map(|text| (text.parse::<KeyMatcher>().unwrap(), text));
/// let map = KeyMap::new(&KeyExpression::default(), entries);
/// let find = |key: Key| map.find(key.view()).copied();
/// assert_eq!(find(Key::new("alice")), Some("alice"));
/// assert_eq!(find(Key::new("internal-batch")), Some("internal-*"));
/// assert_eq!(find(Key::of_network("10.1.2.3".parse()?)), Some("10.0.0.0/8"));
/// assert_eq!(find(Key::new("10.1.2.3")), None);
/// assert_eq!(find(Key::join(&[Key::new("acme"), Key::new("bob")])), Some("acme|*"));
///
/// let error = "a*b".parse::<KeyMatcher>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r"`a*b` has a `*` that isn't at the end of a component: write `\*` for the character"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyMatcher {
    /// At least one.
    components: Box<[Pattern]>,
}

/// The pattern that one component of a key must match.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Pattern {
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
        Self::of(Pattern::Exact(bytes.as_ref().into()))
    }

    /// Matches every key that begins with these bytes.
    #[must_use]
    pub fn prefix(bytes: impl AsRef<[u8]>) -> Self {
        Self::of(Pattern::Prefix(bytes.as_ref().into()))
    }

    /// Matches every key with a client's network in `range`.
    #[must_use]
    pub fn range(range: Cidr) -> Self {
        Self::of(Pattern::Range(range))
    }

    /// Matches keys of several components, each component by its own entry. It corresponds to `|` in
    /// the text.
    ///
    /// ```
    /// use sluicegate_http::KeyMatcher;
    ///
    /// let entry = KeyMatcher::join([KeyMatcher::exact("a|b"), KeyMatcher::prefix("")]);
    /// assert_eq!(entry.to_string(), r"a\|b|*");
    /// assert_eq!(r"a\|b|*".parse(), Ok(entry));
    /// # Ok::<(), sluicegate_http::KeyMatcherError>(())
    /// ```
    #[must_use]
    pub fn join(entries: impl IntoIterator<Item = Self>) -> Self {
        let components: Box<[Pattern]> =
            entries.into_iter().flat_map(|entry| entry.components).collect();
        if components.is_empty() { Self::exact("") } else { Self { components } }
    }

    /// Returns whether every key matches: `*`, or `*|*` where keys have two components.
    #[must_use]
    pub fn matches_all(&self) -> bool {
        self.components.iter().all(|it| matches!(it, Pattern::Prefix(text) if text.is_empty()))
    }

    /// Returns whether the entry is text without `*`, which only one key matches.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.components.iter().all(|it| matches!(it, Pattern::Exact(_)))
    }

    /// Returns the range, if the entry is one.
    #[must_use]
    pub fn as_range(&self) -> Option<Cidr> {
        match &*self.components {
            [Pattern::Range(range)] => Some(*range),
            _ => None,
        }
    }

    fn of(component: Pattern) -> Self {
        Self { components: [component].into() }
    }
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
    /// Returns the text that parses as the entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for component in &self.components {
            write!(f, "{between}{component}")?;
            between = "|";
        }
        Ok(())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(bytes) => f.write_str(&read::escaped(bytes)),
            Self::Prefix(bytes) => write!(f, "{}*", read::escaped(bytes)),
            Self::Range(range) => write!(f, "{range}"),
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
    /// Returns the column where the part at fault begins, in characters from 1.
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
