//! One line of a log in JSON: `{"time":"2026-01-01T00:00:00Z","key":"alice","cost":3}`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_core::Cost;

use crate::malformed::Malformed;
use crate::times::Times;

/// A request as one line of JSON.
#[derive(Debug)]
pub(crate) struct JsonLine<'l> {
    /// When the request was made, in µs since the epoch.
    pub(crate) time: u64,
    pub(crate) key: Cow<'l, str>,
    /// What the request costs, when the line says so.
    pub(crate) cost: Option<Cost>,
}

#[derive(Deserialize)]
struct Fields<'l> {
    #[serde(borrow, default)]
    time: Option<&'l RawValue>,
    #[serde(borrow, default)]
    key: Option<&'l RawValue>,
    #[serde(borrow, default)]
    cost: Option<&'l RawValue>,
}

#[derive(Deserialize)]
struct Text<'l>(#[serde(borrow)] Cow<'l, str>);

impl<'l> JsonLine<'l> {
    /// Whether a line begins as an object does: an array would be read as the fields in their
    /// order.
    pub(crate) fn may_be(line: &[u8]) -> bool {
        line.trim_ascii_start().starts_with(b"{")
    }

    pub(crate) fn read(line: &'l [u8], times: &mut Times) -> Result<Self, Malformed> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Err(Malformed::Blank);
        }
        if !Self::may_be(line) {
            return Err(Malformed::NotJson);
        }
        let fields: Fields<'l> = serde_json::from_slice(line).map_err(|_| Malformed::NotJson)?;
        let time = fields.time.and_then(|value| time(value.get(), times)).ok_or(Malformed::Time)?;
        let key = fields.key.and_then(|value| key(value.get())).ok_or(Malformed::Key)?;
        let cost = match fields.cost {
            None => None,
            Some(value) => {
                let units = value.get().parse().map_err(|_| Malformed::Cost)?;
                Some(Cost::new(units).map_err(|_| Malformed::Cost)?)
            }
        };
        Ok(Self { time, key, cost })
    }
}

fn key(value: &str) -> Option<Cow<'_, str>> {
    match value.as_bytes().first()? {
        b'"' => text(value),
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(value)),
        _ => None,
    }
}

fn text(value: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str(value).ok().map(|Text(text)| text)
}

fn time(value: &str, times: &mut Times) -> Option<u64> {
    if value.starts_with('"') {
        times.read(text(value)?.as_bytes())
    } else {
        times.read(value.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_text_or_a_number_as_written() {
        let line = br#"{"more":[1,{}],"cost":3,"key":"a\u0000\"b","time":1}"#;
        let line = JsonLine::read(line, &mut Times::default()).unwrap();
        assert_eq!((&*line.key, line.cost.map(Cost::get)), ("a\0\"b", Some(3)));
        let line =
            JsonLine::read(br#" {"time":1,"key":42,"cost":null}"#, &mut Times::default()).unwrap();
        assert_eq!((&*line.key, line.cost), ("42", None));
    }

    #[test]
    fn a_malformed_line_says_why() {
        for (line, why) in [
            (&b"  "[..], Malformed::Blank),
            (b"{", Malformed::NotJson),
            (br#"[1,"k",1]"#, Malformed::NotJson),
            (b"{\"time\":1,\"key\":\"\xff\"}", Malformed::NotJson),
            (br#"{"key":"k"}"#, Malformed::Time),
            (br#"{"time":1}"#, Malformed::Key),
            (br#"{"time":1,"key":{}}"#, Malformed::Key),
            (br#"{"time":1,"key":"k","cost":0}"#, Malformed::Cost),
            (br#"{"time":1,"key":"k","cost":1.5}"#, Malformed::Cost),
            (br#"{"time":1,"key":"k","cost":9007199254740992}"#, Malformed::Cost),
        ] {
            assert_eq!(
                JsonLine::read(line, &mut Times::default()).unwrap_err(),
                why,
                "{}",
                line.escape_ascii()
            );
        }
    }
}
