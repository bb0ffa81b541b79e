//! Times as logs write them.
//!
//! [`Times`] reads every form: `17/May/2015:10:05:03 +0000` of web servers, RFC 3339 and its
//! relatives, and numbers since the epoch. A time without an offset is UTC.

use jiff::civil::Date;
use jiff::tz::Offset;
use sluicegate_core::Timestamp;

/// Reads times. Neighboring lines are usually of the same minute, so only their seconds are parsed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// The remembered minute: its text, padded with zeros, and the text of its offset.
    minute: [u8; CLF],
    offset: [u8; OFFSET],
    /// Start of the remembered minute, in µs since the epoch.
    begin: Option<i64>,
}

/// The bytes of `17/May/2015:10:05:`.
const CLF: usize = 18;

/// The bytes of `2015-05-17T10:05:`.
const ISO: usize = 17;

/// The bytes of the longest offset, ` +00:00`.
const OFFSET: usize = 7;

const SECOND: i64 = 1_000_000;

impl Times {
    /// Returns the instant in µs since the epoch. Fractions of a µs are cut off. Returns `None` if
    /// the text isn't a time, or if a [`Timestamp`] can't hold it.
    pub(crate) fn read(&mut self, text: &[u8]) -> Option<u64> {
        let length = match text {
            [_, _, b'/', ..] => CLF,
            [_, _, _, _, b'-' | b'/', ..] => ISO,
            _ => return since_epoch(std::str::from_utf8(text).ok()?),
        };
        self.split(text, length).or_else(|| {
            // Rarer forms of ISO 8601.
            let instant: jiff::Timestamp = std::str::from_utf8(text).ok()?.parse().ok()?;
            valid(instant.as_microsecond())
        })
    }

    /// Reads a time whose text has `length` bytes before the seconds.
    fn split(&mut self, text: &[u8], length: usize) -> Option<u64> {
        let (minute, rest) = text.split_at_checked(length)?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let (micros, offset) = fraction(rest)?;
        let mut padded = [0; CLF];
        padded[..length].copy_from_slice(minute);
        let mut padded_offset = [0; OFFSET];
        padded_offset.get_mut(..offset.len())?.copy_from_slice(offset);
        if self.begin.is_none() || self.minute != padded || self.offset != padded_offset {
            let date = if length == CLF { clf(&padded)? } else { iso(minute.try_into().ok()?)? };
            let begin = seconds_east(offset)?.to_timestamp(date).ok()?.as_microsecond();
            (self.minute, self.offset, self.begin) = (padded, padded_offset, Some(begin));
        }
        // 60 is a leap second, which has no instant of its own in Unix time.
        let seconds = two_digits(seconds).filter(|&seconds| seconds <= 60)?;
        valid(self.begin? + i64::from(seconds) * SECOND + micros)
    }
}

fn valid(micros: i64) -> Option<u64> {
    Timestamp::from_micros(u64::try_from(micros).ok()?).ok().map(Timestamp::as_micros)
}

/// Returns the fraction after the seconds in µs, if there is one, and the rest of the text.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let [b'.' | b',', digits @ ..] = text else { return Some((0, text)) };
    let count = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let (digits, rest) = digits.split_at(count);
    Some((i64::try_from(micros(digits)).ok()?, rest))
}

/// Returns the first six digits after a decimal point, as millionths.
fn micros(digits: &[u8]) -> u64 {
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
    padded.take(6).fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

fn clf(text: &[u8; CLF]) -> Option<jiff::civil::DateTime> {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let [d, e, b'/', m, o, n, b'/', c, y, x, z, b':', h, i, b':', j, k, b':'] = *text else {
        return None;
    };
    let month = MONTHS.chunks_exact(3).position(|month| month == [m, o, n])?;
    instant([c, y, x, z], i8::try_from(month).ok()? + 1, [d, e], [h, i], [j, k])
}

fn iso(text: &[u8; ISO]) -> Option<jiff::civil::DateTime> {
    let [c, y, x, z, s, m, o, t, d, e, b'T' | b't' | b' ', h, i, b':', j, k, b':'] = *text else {
        return None;
    };
    if s != t {
        return None;
    }
    instant([c, y, x, z], two_digits(&[m, o])?, [d, e], [h, i], [j, k])
}

fn instant(
    [c, y, x, z]: [u8; 4],
    month: i8,
    day: [u8; 2],
    hour: [u8; 2],
    minute: [u8; 2],
) -> Option<jiff::civil::DateTime> {
    let year = i16::from(two_digits(&[c, y])?) * 100 + i16::from(two_digits(&[x, z])?);
    let date = Date::new(year, month, two_digits(&day)?).ok()?;
    let (hour, minute) = (two_digits(&hour)?, two_digits(&minute)?);
    (hour <= 23 && minute <= 59).then(|| date.at(hour, minute, 0, 0))
}

/// Parses an offset: `+0200`, `+02:00`, `+02`, `Z`, `UTC`, `GMT`, each with an optional space, or
/// nothing.
fn seconds_east(offset: &[u8]) -> Option<Offset> {
    let (sign, h, i, m, n) = match *offset.strip_prefix(b" ").unwrap_or(offset) {
        [] | [b'Z' | b'z'] | [b'U', b'T', b'C'] | [b'G', b'M', b'T'] => return Some(Offset::UTC),
        [sign, h, i] => (sign, h, i, b'0', b'0'),
        [sign, h, i, m, n] | [sign, h, i, b':', m, n] => (sign, h, i, m, n),
        _ => return None,
    };
    let (hours, minutes) = (two_digits(&[h, i])?, two_digits(&[m, n])?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = i32::from(hours) * 3_600 + i32::from(minutes) * 60;
    match sign {
        b'+' => Offset::from_seconds(seconds).ok(),
        b'-' => Offset::from_seconds(-seconds).ok(),
        _ => None,
    }
}

fn two_digits(digits: &[u8; 2]) -> Option<i8> {
    let [tens, units] = *digits;
    if !tens.is_ascii_digit() || !units.is_ascii_digit() {
        return None;
    }
    i8::try_from((tens - b'0') * 10 + (units - b'0')).ok()
}

/// Parses a number since the epoch and returns µs. Its size determines its unit: seconds, from
/// 10^11 milliseconds, from 10^14 microseconds, from 10^17 nanoseconds.
fn since_epoch(number: &str) -> Option<u64> {
    if let Some((digits, exponent)) = number.split_once(['e', 'E']) {
        return since_epoch(&without_exponent(digits, exponent.parse().ok()?)?);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(fraction) {
        return None;
    }
    // Reject a sign, which `parse` would accept.
    let whole: u64 = whole.parse().ok().filter(|_| is_number(whole))?;
    let parts = micros(fraction.as_bytes());
    let micros = match whole {
        0..100_000_000_000 => whole.checked_mul(1_000_000)?.checked_add(parts)?,
        100_000_000_000..100_000_000_000_000 => {
            whole.checked_mul(1_000)?.checked_add(parts / 1_000)?
        }
        100_000_000_000_000..100_000_000_000_000_000 => whole,
        _ => whole / 1_000,
    };
    valid(i64::try_from(micros).ok()?)
}

/// Converts `1.7` and 9 to `1700000000`, exactly, without floating point.
fn without_exponent(number: &str, exponent: i8) -> Option<String> {
    /// Far more digits than any time has.
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

    fn read(time: &str) -> Option<u64> {
        Times::default().read(time.as_bytes())
    }

    #[test]
    fn one_instant_can_be_written_in_several_ways() {
        for time in [
            "17/May/2015:10:05:03.25 +0000",
            "17/May/2015:12:05:03.250 +0200",
            "17/May/2015:06:35:03.250000999 -0330",
            "17/May/2015:10:05:03.25",
            "2015-05-17T10:05:03.25Z",
            "2015-05-17T12:05:03.250+02:00",
            "2015-05-17T12:05:03,25+0200",
            "2015-05-17 10:05:03.25 UTC",
            "2015-05-17 10:05:03.25",
            "2015/05/17 10:05:03.25",
            "2015-05-17t10:05:03.25z",
            "2015-05-17T10:05:03.25+00:00[UTC]",
            "1431857103.25",
            "1431857103.2500009",
            "1431857103250",
            "1431857103250.0009",
            "1431857103250000",
            "1431857103250000999",
            "1.43185710325e9",
            "1.43185710325E+12",
            "143185710325000099e-8",
            "0.0143185710325e11",
            "1431857103250e0",
        ] {
            assert_eq!(read(time), Some(1_431_857_103_250_000), "{time}");
        }
        assert_eq!(read("01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(read("29/Feb/2024:23:59:60 +0000"), Some(1_709_251_200_000_000));
        assert_eq!(read("7"), Some(7_000_000));
        assert_eq!(read("0.5"), Some(500_000));
        assert_eq!(read("5e-1"), Some(500_000));
        assert_eq!(read("12e-7"), Some(1));
        assert_eq!(read("1e-9"), Some(0));
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for time in [
            "",
            "17/may/2015:10:05:03 +0000",
            "31/Feb/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "17/May/2015:10:60:03 +0000",
            "17/May/2015:10:05:61 +0000",
            "17/May/2015:10:05:03 00000",
            "17/May/2015:10:05:03 +2400",
            "17/May/2015 10:05:03 +0000",
            "17/May/2015:10:05:03. +0000",
            "31/Dec/1969:23:59:59 +0000",
            "17/May/9999:10:05:03 +0000",
            "17/May/0000:10:05:03 +0000",
            "00/Jan/2015:10:05:03 +0000",
            "1969-12-31T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "2015-05/17T10:05:03Z",
            "2015-13-17T10:05:03Z",
            "soon",
            "-1",
            "+1",
            "1e20",
            "1e999",
            "1e-999",
            "-1e9",
            "null",
            "99999999999999999999",
            "18446744073709551615",
        ] {
            assert_eq!(read(time), None, "{time}");
        }
    }

    #[test]
    fn a_remembered_minute_changes_no_answer() {
        let mut times = Times::default();
        for time in [
            &b"17/May/2015:10:05:03 +0000"[..],
            b"17/May/2015:10:05:59 +0000",
            b"17/May/2015:10:05:59.5 +0100",
            b"17/May/2015:10:06:xx +0100",
            b"17/May/2015:10:06:00 +0100",
            b"xx/May/2015:10:06:00 +0100",
            b"17/May/2015:10:06:01 +0100",
            b"17/May/2015:10:05:03 +0000",
            b"2015-05-17T10:05:03Z",
            b"2015-05-17T10:05:03+01:00",
            b"2015-05-17T10:05:04+01:00",
        ] {
            assert_eq!(times.read(time), Times::default().read(time));
        }
    }
}
