//! Durations as the incumbent's variables have them.

use std::time::Duration;

/// Units with their nanoseconds. A unit comes before those that its name begins with.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration in Go's notation, such as `1m30s` or `1.5h`. Negative and longer ones than 292 years aren't
/// durations.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_u64;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let named = |&(name, nanos): &(&str, u64)| Some((nanos, after.strip_prefix(name)?));
        let (unit, next) = UNITS.iter().find_map(named)?;
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let added = whole.checked_mul(unit)?.checked_add(part(fraction, unit))?;
        nanos = nanos.checked_add(added)?;
        rest = next;
    }
    i64::try_from(nanos).is_ok().then(|| Duration::from_nanos(nanos))
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Returns the nanoseconds of a unit's fraction.
fn part(digits: &str, unit: u64) -> u64 {
    let mut nanos = 0;
    let mut scale = unit;
    for digit in digits.bytes() {
        scale /= 10;
        nanos += u64::from(digit - b'0') * scale;
    }
    nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("+2s", 2_000),
            ("0", 0),
            ("3000us", 3),
            ("2000µs", 2),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1 s", "1d", "1min", ".s", "300000000000h", "1ss"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
