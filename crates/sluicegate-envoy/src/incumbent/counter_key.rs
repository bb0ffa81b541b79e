//! Names of counters.

use std::fmt::{self, Write as _};

use super::unit::Unit;

/// The name under which a descriptor is counted; equal for descriptors that share a counter.
///
/// It has `CACHE_KEY_PREFIX`, the unit, the domain, and the keys and values. Each text has its length in bytes before it,
/// so different descriptors never have the same name. The window isn't in it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CounterKey(String);

impl CounterKey {
    /// Makes the name for the entries of a descriptor.
    pub(crate) fn new<'a>(
        prefix: &str,
        unit: Unit,
        domain: &str,
        entries: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut key = Self(String::with_capacity(64));
        key.push(prefix);
        key.0.extend(unit.name().chars().map(|it| it.to_ascii_lowercase()));
        key.push(domain);
        for (name, value) in entries {
            key.push(name);
            key.push(value);
        }
        key
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn push(&mut self, text: &str) {
        // Writing to a text doesn't fail.
        let _ = write!(self.0, "{}:", text.len());
        self.0.push_str(text);
    }
}

impl fmt::Display for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_descriptors_have_different_keys() {
        let key = |prefix, domain, entries: &[(&'static str, &'static str)]| {
            CounterKey::new(prefix, Unit::Hour, domain, entries.iter().copied())
        };
        assert_eq!(key("pre:", "d", &[("k", "v")]).as_str(), "4:pre:hour1:d1:k1:v");
        assert_ne!(key("", "d", &[("a", "b_c")]), key("", "d", &[("a_b", "c")]));
        assert_ne!(key("", "d", &[("a", "b"), ("c", "d")]), key("", "d", &[("a", "b1:c1:d")]));
        assert_ne!(key("0:hour1:d", "d", &[]), key("", "d", &[("d", "")]));
    }
}
