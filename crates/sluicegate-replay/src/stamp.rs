//! The time of an access log's line: `17/May/2015:10:05:03 +0000`.

use jiff::civil::Date;
use jiff::tz::Offset;
use sluicegate_core::Timestamp;

/// Reads stamps. Lines near each other are stamped within the same minute, so only the seconds
/// of most are read.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    day_and_minute: [u8; 18],
    offset: [u8; 6],
    /// The instant at which the remembered minute begins, in µs since the epoch.
    minute: Option<i64>,
}

/// The bytes of a stamp.
pub(crate) const LENGTH: usize = 26;

const SECOND: i64 = 1_000_000;

impl Stamps {
    /// The instant in µs since the epoch; `None` for anything but a stamp of an instant that a
    /// [`Timestamp`] can hold.
    pub(crate) fn read(&mut self, stamp: &[u8; LENGTH]) -> Option<u64> {
        let (day_and_minute, rest) = stamp.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let offset = rest.first_chunk()?;
        if self.minute.is_none() || self.day_and_minute != *day_and_minute || self.offset != *offset
        {
            self.minute = Some(begin_of_minute(day_and_minute, offset)?);
            self.day_and_minute = *day_and_minute;
            self.offset = *offset;
        }
        // 60 is a leap second, which has no instant of its own in Unix time.
        let seconds = two_digits(seconds).filter(|&seconds| seconds <= 60)?;
        let micros = u64::try_from(self.minute? + i64::from(seconds) * SECOND).ok()?;
        Timestamp::from_micros(micros).ok().map(Timestamp::as_micros)
    }
}

fn begin_of_minute(text: &[u8; 18], offset: &[u8; 6]) -> Option<i64> {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let [d, e, b'/', m, o, n, b'/', c, y, x, z, b':', h, i, b':', j, k, b':'] = *text else {
        return None;
    };
    let month = MONTHS.chunks_exact(3).position(|month| month == [m, o, n])?;
    let year = i16::from(two_digits(&[c, y])?) * 100 + i16::from(two_digits(&[x, z])?);
    let date = Date::new(year, i8::try_from(month).ok()? + 1, two_digits(&[d, e])?).ok()?;
    let (hour, minute) = (two_digits(&[h, i])?, two_digits(&[j, k])?);
    if hour > 23 || minute > 59 {
        return None;
    }
    Some(seconds_east(offset)?.to_timestamp(date.at(hour, minute, 0, 0)).ok()?.as_microsecond())
}

fn seconds_east(offset: &[u8; 6]) -> Option<Offset> {
    let [b' ', sign @ (b'+' | b'-'), h, i, m, n] = *offset else {
        return None;
    };
    let (hours, minutes) = (two_digits(&[h, i])?, two_digits(&[m, n])?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = i32::from(hours) * 3_600 + i32::from(minutes) * 60;
    Offset::from_seconds(if sign == b'-' { -seconds } else { seconds }).ok()
}

fn two_digits(digits: &[u8; 2]) -> Option<i8> {
    let [tens, units] = *digits;
    if !tens.is_ascii_digit() || !units.is_ascii_digit() {
        return None;
    }
    i8::try_from((tens - b'0') * 10 + (units - b'0')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stamp: &str) -> Option<u64> {
        Stamps::default().read(stamp.as_bytes().try_into().unwrap())
    }

    #[test]
    fn the_offset_is_taken_off() {
        assert_eq!(read("17/May/2015:10:05:03 +0000"), Some(1_431_857_103_000_000));
        assert_eq!(read("17/May/2015:12:05:03 +0200"), Some(1_431_857_103_000_000));
        assert_eq!(read("17/May/2015:06:35:03 -0330"), Some(1_431_857_103_000_000));
        assert_eq!(read("01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(read("29/Feb/2024:23:59:60 +0000"), Some(1_709_251_200_000_000));
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for stamp in [
            "17/may/2015:10:05:03 +0000",
            "31/Feb/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "17/May/2015:10:60:03 +0000",
            "17/May/2015:10:05:61 +0000",
            "17/May/2015:10:05:03 00000",
            "17/May/2015:10:05:03 +2400",
            "17/May/2015 10:05:03 +0000",
            "31/Dec/1969:23:59:59 +0000",
            "17/May/9999:10:05:03 +0000",
            "00/Jan/2015:10:05:03 +0000",
        ] {
            assert_eq!(read(stamp), None, "{stamp}");
        }
    }

    #[test]
    fn a_remembered_minute_changes_no_answer() {
        let mut stamps = Stamps::default();
        for stamp in [
            b"17/May/2015:10:05:03 +0000",
            b"17/May/2015:10:05:59 +0000",
            b"17/May/2015:10:05:59 +0100",
            b"17/May/2015:10:06:xx +0100",
            b"17/May/2015:10:06:00 +0100",
            b"xx/May/2015:10:06:00 +0100",
            b"17/May/2015:10:06:01 +0100",
            b"17/May/2015:10:05:03 +0000",
        ] {
            assert_eq!(stamps.read(stamp), Stamps::default().read(stamp));
        }
    }
}
