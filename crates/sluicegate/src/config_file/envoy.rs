//! Envoy's descriptors, and the limits that they mean.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sluicegate_core::LimitName;
use sluicegate_core::for_stores::KeyWriter;

use super::switch::Switch;

/// The limits of Envoy's descriptors: the section `envoy`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct EnvoyConfig {
    /// The domains by name. Default: none.
    pub domains: BTreeMap<String, EnvoyDomain>,
}

/// A domain of Envoy's rate limit filter.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct EnvoyDomain {
    /// Whether every client may return units with negative hits. Otherwise only clients with the right `admin` may.
    /// Default: off.
    pub refunds: Switch,
    /// The limits of descriptors. The first that matches a descriptor counts.
    pub descriptors: Vec<DescriptorLimit>,
}

/// The limit of the descriptors that match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescriptorLimit {
    /// Keys of the entries, with their values; `None` is any value.
    entries: Vec<(String, Option<String>)>,
    limit: LimitName,
    key: Option<KeyTemplate>,
}

impl DescriptorLimit {
    /// Makes the limit of descriptors that have exactly these entries, in any order.
    pub(super) const fn new(
        entries: Vec<(String, Option<String>)>,
        limit: LimitName,
        key: Option<KeyTemplate>,
    ) -> Self {
        Self { entries, limit, key }
    }

    /// Returns the name of the limit.
    #[must_use]
    pub const fn limit(&self) -> &LimitName {
        &self.limit
    }

    /// Returns the key of a descriptor with these entries; `None` if it doesn't match.
    ///
    /// ```
    /// use sluicegate::Config;
    ///
    /// let config = "\
    /// limits: {fleet: {policies: [gcra 100/s]}}
    /// envoy:
    ///   domains:
    ///     edge:
    ///       - {match: {plan: gold, user: \"*\"}, limit: fleet, key: \"gold-{user}\"}
    /// ";
    /// let config = Config::parse(config, "limits.yaml")?;
    /// let fleet = &config.envoy.domains["edge"].descriptors[0];
    /// assert_eq!(&*fleet.key_of(&[("user", "alice"), ("plan", "gold")]).unwrap(), b"gold-alice");
    /// assert_eq!(fleet.key_of(&[("user", "alice"), ("plan", "free")]), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key_of<'e>(&self, entries: &[(&str, &'e str)]) -> Option<Cow<'e, [u8]>> {
        if entries.len() != self.entries.len() {
            return None;
        }
        for (name, wanted) in &self.entries {
            let (_, value) = entries.iter().find(|(key, _)| key == name)?;
            if wanted.as_ref().is_some_and(|wanted| wanted != value) {
                return None;
            }
        }
        let value = |name: &str| entries.iter().find(|(key, _)| *key == name).map(|(_, it)| *it);
        let key = self.key.as_ref().map(|key| key.fill(|name| value(name).unwrap_or_default()));
        Some(key.unwrap_or_else(|| KeyWriter::<64>::joined(self.open().filter_map(value))))
    }

    /// Returns whether this matches every descriptor that `other` matches.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self.entries.iter().all(|(name, value)| {
                let same = other.entries.iter().find(|(other, _)| other == name);
                same.is_some_and(|(_, other)| value.is_none() || value == other)
            })
    }

    /// Returns the keys of the entries with any value.
    fn open(&self) -> impl Iterator<Item = &str> {
        let open = self.entries.iter().filter(|(_, value)| value.is_none());
        open.map(|(name, _)| name.as_str())
    }
}

/// A key with the values of entries in it, such as `{plan}/{user}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct KeyTemplate(Vec<Piece>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    /// The value of the entry with this key.
    Value(String),
}

impl KeyTemplate {
    /// Parses a template. `{{` and `}}` are braces.
    ///
    /// # Errors
    /// Returns a message that says what to write.
    pub(super) fn parse(text: &str, is_entry: impl Fn(&str) -> bool) -> Result<Self, String> {
        const BRACES: &str =
            "write `{name}` for the value of an entry, and `{{` or `}}` for a brace";
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = brace.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = brace.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else {
                let inside = brace.strip_prefix('{').and_then(|inside| inside.split_once('}'));
                let (name, after) = inside.ok_or_else(|| format!("has a brace alone: {BRACES}"))?;
                if !is_entry(name) {
                    return Err(format!("`{{{name}}}` is not an entry of `match`: {BRACES}"));
                }
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Value(name.to_owned()));
                rest = after;
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        if pieces.is_empty() {
            return Err("is empty: write a text such as `everybody`, or leave it out".to_owned());
        }
        Ok(Self(pieces))
    }

    fn fill<'v>(&self, value: impl Fn(&str) -> &'v str) -> Cow<'v, [u8]> {
        if let [Piece::Value(name)] = &*self.0 {
            return value(name).as_bytes().into();
        }
        let mut key = Vec::new();
        for piece in &self.0 {
            key.extend_from_slice(match piece {
                Piece::Text(text) => text.as_bytes(),
                Piece::Value(name) => value(name).as_bytes(),
            });
        }
        key.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(entries: &[(&str, &str)], key: Option<&str>) -> DescriptorLimit {
        let entry = |&(name, value): &(&str, &str)| {
            (name.to_owned(), (value != "*").then(|| value.to_owned()))
        };
        let key = key.map(|it| KeyTemplate::parse(it, |_| true).expect("a template"));
        let entries = entries.iter().map(entry).collect();
        DescriptorLimit::new(entries, "api".parse().expect("a name"), key)
    }

    #[test]
    fn a_descriptor_matches_with_exactly_the_entries_in_any_order() {
        let gold = line(&[("plan", "gold"), ("user", "*")], None);
        for (entries, key) in [
            (&[("plan", "gold"), ("user", "alice")][..], Some("alice")),
            (&[("user", "a|b"), ("plan", "gold")], Some("a|b")),
            (&[("user", ""), ("plan", "gold")], Some("")),
            (&[("plan", "free"), ("user", "alice")], None),
            (&[("plan", "gold")], None),
            (&[("plan", "gold"), ("user", "alice"), ("ip", "::1")], None),
            (&[("plan", "gold"), ("plan", "gold")], None),
            (&[], None),
        ] {
            let expected = key.map(str::as_bytes);
            assert_eq!(gold.key_of(entries).as_deref(), expected, "{entries:?}");
        }
    }

    #[test]
    fn values_of_several_entries_never_make_the_key_of_others() {
        let both = line(&[("a", "*"), ("b", "*")], None);
        let key = |a, b| both.key_of(&[("a", a), ("b", b)]);
        assert_eq!(&*key("x", "y").unwrap(), b"x|y");
        assert_ne!(key("x|y", "z"), key("x", "y|z"));
    }

    #[test]
    fn a_template_has_text_and_values() {
        let both = line(&[("a", "*"), ("b", "1")], Some("{{{a}}}-{b}"));
        assert_eq!(&*both.key_of(&[("a", "x"), ("b", "1")]).unwrap(), b"{x}-1");
        let bare = line(&[("a", "*")], Some("{a}"));
        assert_eq!(&*bare.key_of(&[("a", "")]).unwrap(), b"", "it counts as a missing key");
        for (text, expected) in [
            ("{c}", "`{c}` is not an entry"),
            ("{a", "a brace alone"),
            ("a}", "a brace alone"),
            ("", "is empty"),
        ] {
            let error = KeyTemplate::parse(text, |name| name == "a").unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
