//! One line of a log in JSON: `{"time":"2026-01-01T00:00:00Z","key":"alice","cost":3}`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_core::{Cost, Timestamp};

use crate::malformed::Malformed;

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

    pub(crate) fn read(line: &'l [u8]) -> Result<Self, Malformed> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Err(Malformed::Blank);
        }
        if !Self::may_be(line) {
            return Err(Malformed::NotJson);
        }
        let fields: Fields<'l> = serde_json::from_slice(line).map_err(|_| Malformed::NotJson)?;
        let time = fields.time.and_then(|value| time(value.get())).ok_or(Malformed::Time)?;
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

fn time(value: &str) -> Option<u64> {
    let micros = if value.starts_with('"') {
        let instant: jiff::Timestamp = text(value)?.parse().ok()?;
        u64::try_from(instant.as_microsecond()).ok()?
    } else {
        since_epoch(value)?
    };
    Timestamp::from_micros(micros).ok().map(Timestamp::as_micros)
}

/// A number of seconds since the epoch, or, told by its size, of milliseconds (from 10^11 on) or
/// microseconds (from 10^14 on), in µs; what is finer than a µs is cut off.
fn since_epoch(number: &str) -> Option<u64> {
    if let Some((digits, exponent)) = number.split_once(['e', 'E']) {
        return since_epoch(&without_exponent(digits, exponent.parse().ok()?)?);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(fraction) {
        return None;
    }
    // No sign: `parse` would take one.
    let whole: u64 = whole.parse().ok().filter(|_| is_number(whole))?;
    let digits = match whole {
        0..100_000_000_000 => 6,
        100_000_000_000..100_000_000_000_000 => 3,
        _ => 0,
    };
    let scale = 10_u64.pow(digits);
    let fraction = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(usize::try_from(digits).ok()?)
        .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    whole.checked_mul(scale)?.checked_add(fraction)
}

/// `1.7` and 9 as `1700000000`: exact, as floating point isn't.
fn without_exponent(number: &str, exponent: i8) -> Option<String> {
    /// Far above the digits of any time.
    const MOST: i8 = 30;
    let places = usize::from(exponent.unsigned_abs());
    if !(-MOST..=MOST).contains(&exponent) {
        return None;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    Some(if exponent < 0 {
        let digits = format!("{:0>places$}{whole}{fraction}", "");
        let (whole, fraction) = digits.split_at_checked(whole.len())?;
        format!("0{whole}.{fraction}")
    } else {
        let digits = format!("{fraction:0<places$}");
        let (moved, fraction) = digits.split_at_checked(places)?;
        format!("{whole}{moved}.{fraction}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_of(value: &str) -> Option<u64> {
        JsonLine::read(format!(r#"{{"time":{value},"key":"k"}}"#).as_bytes())
            .ok()
            .map(|line| line.time)
    }

    #[test]
    fn one_instant_can_be_written_in_several_ways() {
        for value in [
            r#""2015-05-17T10:05:03.25Z""#,
            r#""2015-05-17T12:05:03.250+02:00""#,
            "1431857103.25",
            "1431857103.2500009",
            "1431857103250",
            "1431857103250000",
            "1.43185710325e9",
            "1.43185710325E+12",
            "143185710325000099e-8",
            "0.0143185710325e11",
            "1431857103250e0",
        ] {
            assert_eq!(time_of(value), Some(1_431_857_103_250_000), "{value}");
        }
        assert_eq!(time_of("7"), Some(7_000_000));
        assert_eq!(time_of("0.5"), Some(500_000));
        assert_eq!(time_of("5e-1"), Some(500_000));
        assert_eq!(time_of("12e-7"), Some(1));
        assert_eq!(time_of("1e-9"), Some(0));
    }

    #[test]
    fn what_is_no_instant_is_malformed() {
        for value in [
            "-1",
            "1e20",
            "1e999",
            "1e-999",
            "-1e9",
            "null",
            "true",
            r#""soon""#,
            r#""1969-12-31T00:00:00Z""#,
            "[1]",
            "99999999999999999999",
        ] {
            assert_eq!(time_of(value), None, "{value}");
        }
    }

    #[test]
    fn a_key_is_text_or_a_number_as_written() {
        let line = br#"{"more":[1,{}],"cost":3,"key":"a\u0000\"b","time":1}"#;
        let line = JsonLine::read(line).unwrap();
        assert_eq!((&*line.key, line.cost.map(Cost::get)), ("a\0\"b", Some(3)));
        let line = JsonLine::read(br#" {"time":1,"key":42,"cost":null}"#).unwrap();
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
            assert_eq!(JsonLine::read(line).unwrap_err(), why, "{}", line.escape_ascii());
        }
    }
}
