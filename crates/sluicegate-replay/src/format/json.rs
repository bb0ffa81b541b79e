//! Finds the named parts of a line of JSON without building a tree.
//!
//! A flat object, as nginx writes it, is searched for the names directly; serde parses other
//! objects. Parts that aren't named are skipped.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};
use serde::Deserialize;
use serde::de::{Deserializer as _, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::role::{Form, Role};
use super::values::{Value, Values};
use crate::malformed::Malformed;

/// The paths to find in a JSON line.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    paths: Vec<Path>,
    /// Whether every path is a plain name, so a flat line can be searched for it.
    is_flat: bool,
}

#[derive(Clone, Debug)]
struct Path {
    role: Role,
    form: Form,
    /// Names joined by dots; a number is an index of an array.
    path: String,
    /// Finder of the name with its quotes.
    finder: Finder<'static>,
}

impl Paths {
    pub(crate) fn new(paths: impl IntoIterator<Item = (Role, Form, String)>) -> Self {
        let paths: Vec<_> = paths
            .into_iter()
            .map(|(role, form, path)| {
                let finder = Finder::new(&format!("\"{path}\"")).into_owned();
                Path { role, form, path, finder }
            })
            .collect();
        // Other characters may be escaped, and a dot leads into an object.
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'@');
        let is_flat = paths.iter().all(|path| path.path.bytes().all(is_plain));
        Self { paths, is_flat }
    }

    /// Finds the parts of a line.
    pub(crate) fn read<'l>(
        &self,
        line: &'l [u8],
        values: &mut Values<'l>,
    ) -> Result<(), Malformed> {
        if self.is_flat
            && let Some(searched) = self.search(line, values)
        {
            return searched;
        }
        *values = Values::default();
        self.parse(line, values)
    }

    /// Searches an object without nested objects. Returns `None` if it may have one, or must be
    /// parsed.
    fn search<'l>(&self, line: &'l [u8], values: &mut Values<'l>) -> Option<Result<(), Malformed>> {
        let inside = line.trim_ascii().strip_prefix(b"{")?.strip_suffix(b"}")?;
        if memchr(b'{', inside).is_some() {
            return None;
        }
        for path in &self.paths {
            let Some((value, rest)) = path.find(inside) else {
                // The name may be written with escapes; without escapes it is missing.
                if memchr(b'\\', inside).is_some() {
                    return None;
                }
                continue;
            };
            if path.find(rest).is_some() {
                return Some(Err(Malformed::Twice(path.role)));
            }
            values.set(path.role, scalar(value, path)?);
        }
        Some(Ok(()))
    }

    fn parse<'l>(&self, line: &'l [u8], values: &mut Values<'l>) -> Result<(), Malformed> {
        // An array would be parsed as an object of numbers.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(Malformed::NotJson);
        }
        let object = std::str::from_utf8(line).map_err(|_| Malformed::NotJson)?;
        let open: Vec<_> = self.paths.iter().map(|path| (path, &*path.path)).collect();
        let mut found = Found { values, twice: None };
        found.members(object, &open).map_err(|_| Malformed::NotJson)?;
        found.twice.map_or(Ok(()), |role| Err(Malformed::Twice(role)))
    }
}

impl Path {
    /// Finds the name as a member's name. Returns the value and the text after it, and the text
    /// after the name.
    fn find<'l>(&self, inside: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        let mut from = 0;
        loop {
            let start = from + self.finder.find(&inside[from..])?;
            from = start + self.path.len() + 2;
            let rest = inside[from..].trim_ascii_start();
            // The match could be a value, or the end of a longer name with a quote in it.
            if start.checked_sub(1).is_none_or(|before| inside[before] != b'\\')
                && let Some(value) = rest.strip_prefix(b":")
            {
                return Some((value.trim_ascii_start(), value));
            }
        }
    }
}

/// Reads the scalar that a text begins with. Returns `None` if it needs serde or isn't a scalar.
fn scalar<'l>(text: &'l [u8], path: &Path) -> Option<Value<'l>> {
    if let Some(inside) = text.strip_prefix(b"\"") {
        let end = memchr2(b'"', b'\\', inside)?;
        let text = &inside[..end];
        return (inside[end] == b'"').then_some(Value::plain(text, path.form));
    }
    let end =
        text.iter().position(|byte| matches!(byte, b',' | b' ' | b'\t')).unwrap_or(text.len());
    let number = &text[..end];
    let is_number = number.first().is_some_and(|first| matches!(first, b'-' | b'0'..=b'9'))
        && number.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    is_number.then_some(Value::plain(number, path.form))
}

/// A path, and the rest of it that is still to be followed.
type Open<'p> = (&'p Path, &'p str);

/// Returns a path without `name` at its beginning.
fn after<'p>(&(path, rest): &Open<'p>, name: &str) -> Option<Open<'p>> {
    let rest = rest.strip_prefix(name)?;
    if rest.is_empty() { Some((path, rest)) } else { Some((path, rest.strip_prefix('.')?)) }
}

struct Found<'v, 'l> {
    values: &'v mut Values<'l>,
    twice: Option<Role>,
}

impl<'l> Found<'_, 'l> {
    /// Follows the paths into the members of an object or array.
    fn members(&mut self, json: &'l str, open: &[Open<'_>]) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        deserializer.deserialize_any(Members { found: self, open })?;
        deserializer.end()
    }

    fn member(
        &mut self,
        name: &str,
        raw: &'l RawValue,
        open: &[Open<'_>],
    ) -> serde_json::Result<()> {
        // Most members are on no path; this allocates nothing for them.
        let open: Vec<_> = open.iter().filter_map(|open| after(open, name)).collect();
        for (path, _) in open.iter().filter(|(_, rest)| rest.is_empty()) {
            if let Some(value) = raw_value(raw.get(), path.form)
                && !self.values.set(path.role, value)
            {
                self.twice.get_or_insert(path.role);
            }
        }
        let leads_on = open.iter().any(|(_, rest)| !rest.is_empty());
        if leads_on && raw.get().starts_with(['{', '[']) {
            self.members(raw.get(), &open)?;
        }
        Ok(())
    }
}

struct Members<'f, 'v, 'p, 'l> {
    found: &'f mut Found<'v, 'l>,
    open: &'p [Open<'p>],
}

#[derive(Deserialize)]
struct Name<'l>(#[serde(borrow)] Cow<'l, str>);

impl<'l> Visitor<'l> for Members<'_, '_, '_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or array")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = members.next_key::<Name<'l>>()? {
            let raw: &'l RawValue = members.next_value()?;
            self.found.member(&name, raw, self.open).map_err(Error::custom)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'l>>(self, mut members: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        while let Some(raw) = members.next_element::<&'l RawValue>()? {
            self.found.member(&index.to_string(), raw, self.open).map_err(Error::custom)?;
            index += 1;
        }
        Ok(())
    }
}

fn raw_value(raw: &str, form: Form) -> Option<Value<'_>> {
    let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    match inside {
        Some(text) => Some(Value {
            text: text.as_bytes(),
            form,
            is_escaped: memchr(b'\\', text.as_bytes()).is_some(),
        }),
        None if raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
            Some(Value::plain(raw.as_bytes(), form))
        }
        // The value is useless for a request.
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Field;

    const KEY: Role = Role::Text(Field::Host);

    fn paths(time: &str, key: &str) -> Paths {
        Paths::new([(Role::Time, Form::Plain, time.to_owned()), (KEY, Form::Plain, key.to_owned())])
    }

    fn read(paths: &Paths, line: &str) -> Result<(Option<String>, Option<String>), Malformed> {
        let mut values = Values::default();
        paths.read(line.as_bytes(), &mut values)?;
        let text = |role| {
            let value: Option<Value<'_>> = values.get(role);
            value.map(|value| String::from_utf8(value.text.to_vec()).unwrap())
        };
        Ok((text(Role::Time), text(KEY)))
    }

    #[test]
    fn parts_are_found_at_their_paths() {
        for (time, key, line) in [
            ("ts", "ip", r#"{"ts":1,"ip":"a"}"#),
            ("ts", "ip", r#" { "x" : "ts" , "ip" : "a" , "ts" : 1 } "#),
            ("ts", "ip", r#"{"uri":"/?\"ip\":\"b\"","ts":1,"ip":"a"}"#),
            ("ts", "ip", r#"{"more":{"ip":"b"},"ts":1,"ip":"a"}"#),
            ("ts", "ip", r#"{"\u0074s":1,"ip":"a"}"#),
            ("ts", "ip", r#"{"x\"ip":"b","ts":1,"ip":"a"}"#),
            ("ts", "request.ip", r#"{"ts":1,"request":{"ip":"a","ts":2},"ip":"b"}"#),
            ("ts", "request.ip", r#"{"ts":1,"request.ip":"a"}"#),
            ("ts", "ips.1", r#"{"ts":1,"ips":["b","a"]}"#),
            ("ts", "h.User-Agent.0", r#"{"ts":1,"h":{"User-Agent":["a"]}}"#),
        ] {
            let found = read(&paths(time, key), line);
            assert_eq!(found, Ok((Some("1".into()), Some("a".into()))), "{line}");
        }
    }

    #[test]
    fn a_part_that_is_there_twice_is_called_that() {
        for line in
            [r#"{"time":1,"key":"a","time":2}"#, r#"{"time":1,"key":"a","time":2,"more":{}}"#]
        {
            assert_eq!(read(&paths("time", "key"), line), Err(Malformed::Twice(Role::Time)));
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for line in ["{", "[1]", "{}x", "1", r#"{"time":1,"key":"a""#, r#"{"time":1"#] {
            assert_eq!(read(&paths("time", "key"), line), Err(Malformed::NotJson), "{line}");
        }
    }

    proptest! {
        /// Checks that searching a flat line finds the same parts as serde.
        #[test]
        fn a_searched_line_has_the_parts_of_a_parsed_one(
            members in prop::collection::btree_map("[a-c\"\\\\:,é]{0,3}", "[a-c\"\\\\:,{ é]{0,6}", 0..6),
            number in any::<u32>(),
        ) {
            let mut object: serde_json::Map<String, serde_json::Value> =
                members.into_iter().map(|(name, value)| (name, value.into())).collect();
            object.insert("b".into(), number.into());
            let line = serde_json::Value::from(object).to_string();
            let paths = paths("b", "a");
            let (mut parsed, mut searched) = (Values::default(), Values::default());
            paths.parse(line.as_bytes(), &mut parsed).unwrap();
            if let Some(found) = paths.search(line.as_bytes(), &mut searched) {
                found.unwrap();
                for role in [Role::Time, KEY] {
                    let text = |values: &Values<'_>| values.get(role).map(|value| value.text.to_vec());
                    prop_assert_eq!(text(&searched), text(&parsed), "{}", line);
                }
            }
        }
    }
}
