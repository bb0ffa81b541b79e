//! Assembles a request from the parts of a line.

use std::ops::Range;

use sluicegate_core::Cost;

use super::role::{Form, Role};
use crate::malformed::Malformed;
use crate::record::{Field, Fields, Moment, Record};
use crate::times::Times;

/// The parts of a line, each in the slot of its role.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values<'l>([Option<Value<'l>>; Role::COUNT]);

/// A part of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'l> {
    /// Bytes as they are in the line.
    pub(crate) text: &'l [u8],
    pub(crate) form: Form,
    /// Whether the bytes are the inside of a JSON string with escapes.
    pub(crate) is_escaped: bool,
}

/// Assembles requests from values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembler {
    times: Times,
    /// Unescaped texts of the line.
    unescaped: Vec<u8>,
    /// A day joined with a time of day.
    joined: Vec<u8>,
}

impl<'l> Value<'l> {
    pub(crate) const fn plain(text: &'l [u8], form: Form) -> Self {
        Self { text, form, is_escaped: false }
    }
}

impl<'l> Values<'l> {
    pub(crate) const fn get(&self, role: Role) -> Option<Value<'l>> {
        self.0[role.index()]
    }

    /// Sets the part of a role. Returns `false` if the line already had one.
    pub(crate) const fn set(&mut self, role: Role, value: Value<'l>) -> bool {
        let slot = &mut self.0[role.index()];
        let is_first = slot.is_none();
        *slot = Some(value);
        is_first
    }
}

impl Assembler {
    /// Writes the request with the `wanted` texts, and returns the moment that its time states.
    pub(crate) fn write<'a>(
        &'a mut self,
        values: &Values<'a>,
        wanted: Fields,
        record: &mut Record<'a>,
    ) -> Result<Moment, Malformed> {
        let (time, moment, between) = self.time(values)?;
        record.time = time;
        record.cost = values.get(Role::Cost).map_or(Ok(None), |value| cost(&value))?;
        record.duration =
            values.get(Role::Duration).map_or(Ok(between), |value| duration(&value))?;
        let host = values.get(Role::Text(Field::Host));
        // Proxies write a dash for an unknown address.
        let is_absent =
            |host: Value<'_>| host.text.is_empty() || host.form != Form::Plain && host.text == b"-";
        if host.is_none_or(is_absent) {
            return Err(Malformed::Missing(Role::Text(Field::Host)));
        }
        for (_, field) in Field::ALL {
            if wanted.has(field)
                && let Some(value) = values.get(Role::Text(field))
            {
                if value.is_escaped {
                    return self.write_unescaped(values, wanted, record).map(|()| moment);
                }
                record.set(field, formed(value.text, value.form));
            }
        }
        Ok(moment)
    }

    /// Writes texts, unescaping those that need it.
    fn write_unescaped<'a>(
        &'a mut self,
        values: &Values<'a>,
        wanted: Fields,
        record: &mut Record<'a>,
    ) -> Result<(), Malformed> {
        let texts = Field::ALL.into_iter().filter_map(|(_, field)| {
            let value = values.get(Role::Text(field))?;
            wanted.has(field).then_some((field, value))
        });
        // Unescape all texts first, because the record then borrows the buffer.
        self.unescaped.clear();
        let mut places: Vec<Range<usize>> = Vec::new();
        for (field, value) in texts.clone() {
            let start = self.unescaped.len();
            if value.is_escaped {
                let text = unescaped(value.text).ok_or(Malformed::Invalid(Role::Text(field)))?;
                self.unescaped.extend_from_slice(text.as_bytes());
            }
            places.push(start..self.unescaped.len());
        }
        for ((field, value), place) in texts.zip(places) {
            let text = if value.is_escaped { &self.unescaped[place] } else { value.text };
            record.set(field, formed(text, value.form));
        }
        Ok(())
    }

    /// Returns the time in µs, its moment, and the µs between start and end if both are present.
    fn time(&mut self, values: &Values<'_>) -> Result<(u64, Moment, Option<u64>), Malformed> {
        let start = values.get(Role::Start).map(|value| self.instant(Role::Start, &value));
        let start = start.transpose()?;
        let end = match (values.get(Role::Date), values.get(Role::Time)) {
            (None, None) => None,
            (None, Some(time)) => Some(self.instant(Role::Time, &time)?),
            (Some(_), None) => return Err(Malformed::Missing(Role::Time)),
            (Some(date), Some(time)) => {
                self.joined.clear();
                self.joined.extend_from_slice(date.text);
                self.joined.push(b' ');
                self.joined.extend_from_slice(time.text);
                Some(self.times.read(&self.joined).ok_or(Malformed::Invalid(Role::Time))?)
            }
        };
        match (start, end) {
            (Some(start), end) => {
                Ok((start, Moment::Start, end.and_then(|end| end.checked_sub(start))))
            }
            (None, Some(end)) => Ok((end, Moment::End, None)),
            (None, None) => Err(Malformed::Missing(Role::Time)),
        }
    }

    fn instant(&mut self, role: Role, value: &Value<'_>) -> Result<u64, Malformed> {
        let time = if value.is_escaped {
            unescaped(value.text).and_then(|text| self.times.read(text.as_bytes()))
        } else {
            self.times.read(value.text)
        };
        time.ok_or(Malformed::Invalid(role))
    }
}

/// Unescapes the inside of a JSON string.
fn unescaped(text: &[u8]) -> Option<String> {
    serde_json::from_str(&format!("\"{}\"", std::str::from_utf8(text).ok()?)).ok()
}

/// Parses a cost; returns `None` for `null` or `-`.
fn cost(value: &Value<'_>) -> Result<Option<Cost>, Malformed> {
    if is_absent(value.text) {
        return Ok(None);
    }
    let units = std::str::from_utf8(value.text).ok().and_then(|text| text.parse().ok());
    let cost = units.and_then(|units| Cost::new(units).ok());
    cost.map(Some).ok_or(Malformed::Invalid(Role::Cost))
}

const fn is_absent(text: &[u8]) -> bool {
    matches!(text, b"" | b"-" | b"null")
}

/// Parses a duration in µs, rounded down. Returns `None` if it is absent or negative; load
/// balancers log an attempt without an answer as negative.
fn duration(value: &Value<'_>) -> Result<Option<u64>, Malformed> {
    let (text, unit) = match value.form {
        Form::Seconds => (value.text, 1_000_000_000),
        Form::Millis => (value.text, 1_000_000),
        Form::Micros => (value.text, 1_000),
        Form::Nanos => (value.text, 1),
        Form::Timers => (last_timer(value.text), 1_000_000),
        _ => return Ok(None),
    };
    if is_absent(text) || text.starts_with(b"-") {
        return Ok(None);
    }
    let usual = if unit == 1_000_000_000 { seconds(text) } else { None };
    usual
        .or_else(|| micros(std::str::from_utf8(text).ok()?, unit))
        .map(Some)
        .ok_or(Malformed::Invalid(Role::Duration))
}

/// Returns the `109` of `10/0/30/69/+109`. A plus means that the log was written before the end.
fn last_timer(text: &[u8]) -> &[u8] {
    let start = text.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    text[start..].strip_prefix(b"+").unwrap_or(&text[start..])
}

/// Parses a number of seconds such as `0.123`, the usual form, as µs.
fn seconds(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|&byte| byte == b'.')?;
    let (whole, parts) = (&text[..point], &text[point + 1..]);
    let is_number = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    if whole.is_empty()
        || whole.len() > 9
        || parts.len() > 6
        || !is_number(whole)
        || !is_number(parts)
    {
        return None;
    }
    let number =
        |digits: &[u8]| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let scale = 10_u64.pow(6 - u32::try_from(parts.len()).ok()?);
    Some(number(whole) * 1_000_000 + number(parts) * scale)
}

/// Parses `1.5`, `1.5s` or `1m2.5s` as µs. A number without a unit counts units of `unit` ns.
fn micros(mut text: &str, unit: u64) -> Option<u64> {
    let mut total: u128 = 0;
    if text.is_empty() {
        return None;
    }
    while !text.is_empty() {
        let digits = text.find(|next: char| !matches!(next, '0'..='9' | '.')).unwrap_or(text.len());
        let (number, rest) = text.split_at(digits);
        let letters = rest.find(|next: char| matches!(next, '0'..='9' | '.')).unwrap_or(rest.len());
        let (letters, rest) = rest.split_at(letters);
        let unit = match letters {
            "" => unit,
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, parts) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || !parts.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let whole: u128 = whole.parse().ok().filter(|&whole| whole <= u128::from(u64::MAX))?;
        let parts = &parts[..parts.len().min(18)];
        let scale = 10_u128.pow(u32::try_from(parts.len()).ok()?);
        let parts: u128 = if parts.is_empty() { 0 } else { parts.parse().ok()? };
        total += whole * u128::from(unit) + parts * u128::from(unit) / scale;
        text = rest;
    }
    u64::try_from(total / 1_000).ok()
}

/// Returns the value in a text of a given form.
fn formed(text: &[u8], form: Form) -> &[u8] {
    match form {
        Form::WithPort => without_port(text),
        Form::Forwarded => {
            let last = text.iter().rposition(|&byte| byte == b',').map_or(0, |comma| comma + 1);
            text[last..].trim_ascii()
        }
        Form::Method => word(text, 0),
        Form::Path => word(text, 1),
        _ => text,
    }
}

fn word(text: &[u8], number: usize) -> &[u8] {
    text.split(|&byte| byte == b' ').nth(number).unwrap_or_default()
}

/// Removes the port after an address. IPv6 addresses may be in brackets.
pub(crate) fn without_port(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte == b':').unwrap_or(text.len());
    let address = &text[..end];
    address.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_or_has_units() {
        const SECOND: u64 = 1_000_000_000;
        for (text, unit, expected) in [
            ("0.25", SECOND, Some(250_000)),
            ("0.0000019", SECOND, Some(1)),
            ("3", SECOND, Some(3_000_000)),
            ("1500000", 1, Some(1_500)),
            ("226", 1_000_000, Some(226_000)),
            ("250ms", SECOND, Some(250_000)),
            ("1m2.5s", SECOND, Some(62_500_000)),
            ("1h", 1, Some(3_600_000_000)),
            ("soon", SECOND, None),
            (".5", SECOND, None),
            ("1.x", SECOND, None),
            ("99999999999999999999", SECOND, None),
        ] {
            assert_eq!(micros(text, unit), expected, "{text}");
            if let Some(found) = seconds(text.as_bytes()) {
                assert_eq!(Some(found), micros(text, SECOND), "{text}");
            }
        }
    }

    #[test]
    fn a_port_is_cut_off() {
        for (text, address) in [
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("2001:db8::1:80", "2001:db8::1"),
            ("192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(without_port(text.as_bytes()), address.as_bytes());
        }
    }
}
