//! Requests without a key.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::key::Key;
use crate::key_component::KeyComponent;

/// A request has no key, because it lacks a component.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct MissingComponent {
    /// The component that the request lacks.
    pub component: KeyComponent,
    /// The reason why the component is missing.
    pub reason: MissingReason,
}

/// The reason why a request lacks a component of its key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum MissingReason {
    /// The component is absent or empty.
    Absent,
    /// The component occurs several times with different values. Programs differ in which one they
    /// read, so a client could choose its key by adding a value.
    Ambiguous,
}

impl MissingComponent {
    /// Returns a request in which `component` is absent.
    #[must_use]
    pub const fn absent(component: KeyComponent) -> Self {
        Self { component, reason: MissingReason::Absent }
    }
}

impl fmt::Display for MissingComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { component, reason } = self;
        match reason {
            MissingReason::Absent => write!(f, "the request has no {}", Described(component)),
            MissingReason::Ambiguous => {
                write!(f, "the request has more than one {}", Described(component))
            }
        }
    }
}

impl Error for MissingComponent {}

/// Displays a component as a noun for use in a sentence.
struct Described<'c>(&'c KeyComponent);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            KeyComponent::Ip => f.write_str("known client address"),
            KeyComponent::User => f.write_str("known user"),
            KeyComponent::Method => f.write_str("method"),
            KeyComponent::Path => f.write_str("path"),
            KeyComponent::Route => f.write_str("matched route"),
            KeyComponent::Host => f.write_str("host"),
            KeyComponent::Header(name) => write!(f, "header field `{name}`"),
            KeyComponent::Cookie(name) => write!(f, "cookie `{}`", name.escape_debug()),
            KeyComponent::Query(name) => write!(f, "query parameter `{}`", name.escape_debug()),
            KeyComponent::Literal(_) | KeyComponent::Custom => f.write_str("key"),
        }
    }
}

/// The treatment of a request that has no key.
///
/// Parses from and prints as `shared`, `refuse` or `skip`.
///
/// ```
/// use sluicegate_http::{Key, KeyComponent, MissingComponent, KeyOutcome, OnMissingKey};
///
/// let missing = MissingComponent::absent(KeyComponent::User);
/// assert_eq!(OnMissingKey::default(), "shared".parse()?);
/// let shared = OnMissingKey::Shared.resolve(Err(missing.clone()));
/// assert_eq!(shared, KeyOutcome::Limit(Key::shared()));
/// assert_eq!(OnMissingKey::Skip.resolve(Err(missing)), KeyOutcome::Skip);
/// # Ok::<(), sluicegate_http::OnMissingKeyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OnMissingKey {
    /// Limit all requests without a key together, under [`Key::shared`].
    #[default]
    Shared,
    /// Refuse the request with status 400.
    Refuse,
    /// Let the request pass without counting it.
    Skip,
}

/// The treatment of one request: the result of [`OnMissingKey::resolve`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum KeyOutcome {
    /// Check the limit with this key.
    Limit(Key),
    /// Refuse the request, which lacks this component.
    Refuse(MissingComponent),
    /// Let the request pass without checking the limit.
    Skip,
}

impl OnMissingKey {
    const WORDS: [(&'static str, Self); 3] =
        [("shared", Self::Shared), ("refuse", Self::Refuse), ("skip", Self::Skip)];

    /// Returns how to treat a request that has this key or none.
    #[must_use]
    pub fn resolve(self, key: Result<Key, MissingComponent>) -> KeyOutcome {
        match (key, self) {
            (Ok(key), _) => KeyOutcome::Limit(key),
            (Err(_), Self::Shared) => KeyOutcome::Limit(Key::shared()),
            (Err(missing), Self::Refuse) => KeyOutcome::Refuse(missing),
            (Err(_), Self::Skip) => KeyOutcome::Skip,
        }
    }
}

impl fmt::Display for OnMissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, policy)| policy == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}

impl FromStr for OnMissingKey {
    type Err = OnMissingKeyError;

    fn from_str(text: &str) -> Result<Self, OnMissingKeyError> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, policy)| *policy)
            .ok_or_else(|| OnMissingKeyError(text.chars().take(40).collect()))
    }
}

/// An [`OnMissingKey`] failed to parse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OnMissingKeyError(String);

impl fmt::Display for OnMissingKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown word `{}`: write shared, refuse or skip", self.0.escape_debug())
    }
}

impl Error for OnMissingKeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_print_as_they_read() {
        for word in ["shared", "refuse", "skip"] {
            assert_eq!(word.parse::<OnMissingKey>().unwrap().to_string(), word);
        }
        let error = "deny".parse::<OnMissingKey>().unwrap_err();
        assert_eq!(error.to_string(), "unknown word `deny`: write shared, refuse or skip");
    }

    #[test]
    fn only_a_missing_key_is_refused() {
        let missing = MissingComponent::absent(KeyComponent::Cookie("s".into()));
        assert_eq!(missing.to_string(), "the request has no cookie `s`");
        for policy in [OnMissingKey::Shared, OnMissingKey::Refuse, OnMissingKey::Skip] {
            assert_eq!(policy.resolve(Ok(Key::new("k"))), KeyOutcome::Limit(Key::new("k")));
        }
        let refused = OnMissingKey::Refuse.resolve(Err(missing.clone()));
        assert_eq!(refused, KeyOutcome::Refuse(missing));
    }
}
