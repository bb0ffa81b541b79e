//! Names of the counters on a metrics page.

/// The name of a rule's metrics: the domain, and the keys and values of a descriptor, with dots between them.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MetricKey(String);

impl MetricKey {
    /// Makes a name. Replaces `:` and `|`, and the dots of IPv4 addresses.
    pub(crate) fn new(path: &str) -> Self {
        let mut name = String::with_capacity(path.len());
        let mut rest = path;
        while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            push(&mut name, before, &[':', '|']);
            let (address, after) = from.split_at(address(from).unwrap_or(1));
            push(&mut name, address, &['.']);
            rest = after;
        }
        push(&mut name, rest, &[':', '|']);
        Self(name)
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the values of the labels `domain`, `key1` and `key2` of the incumbent's metrics.
    ///
    /// Deeper levels count with their first two. The parts of a name end at its dots, also at those of a domain or value.
    #[must_use]
    pub fn labels(&self) -> (&str, &str, Option<&str>) {
        let mut parts = self.0.split('.');
        let domain = parts.next().unwrap_or_default();
        (domain, parts.next().unwrap_or_default(), parts.next())
    }
}

/// Adds a text with `_` in place of these characters.
fn push(name: &mut String, text: &str, replaced: &[char]) {
    for (index, part) in text.split(replaced).enumerate() {
        name.push_str(if index > 0 { "_" } else { "" });
        name.push_str(part);
    }
}

/// Returns the length of the address that `text` begins with.
fn address(text: &str) -> Option<usize> {
    let mut length = 0;
    for part in 0..4 {
        let rest = text.get(length..)?;
        let rest = if part == 0 { rest } else { rest.strip_prefix('.')? };
        length += usize::from(part > 0);
        let digits = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        length += digits;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for (path, name) in [
            ("d.ip_10.0.0.1.k", "d.ip_10_0_0_1.k"),
            ("d.a:b|c", "d.a_b_c"),
            ("d.v_1.2.3", "d.v_1.2.3"),
            ("d.v_1.2.3.4.5", "d.v_1_2_3_4.5"),
            ("d.v_1234.5.6.7", "d.v_1234_5_6_7"),
            ("d.v_1.2.3.4567", "d.v_1_2_3_4567"),
            ("d.ü1.2", "d.ü1.2"),
        ] {
            assert_eq!(MetricKey::new(path).as_str(), name);
        }
    }

    #[test]
    fn a_third_level_counts_with_its_first_two() {
        assert_eq!(MetricKey::new("d.a.b.c").labels(), ("d", "a", Some("b")));
        assert_eq!(MetricKey::new("d.a").labels(), ("d", "a", None));
    }
}
