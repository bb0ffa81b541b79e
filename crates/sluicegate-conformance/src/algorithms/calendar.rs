//! Calendar windows, searched for by their definition.

use std::cell::RefCell;
use std::collections::HashMap;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use sluicegate_core::{CalendarWindow, MAX_EXACT};

/// The start rule of windows, parsed from the text of a spec, the only input of this module.
#[derive(Debug)]
struct Calendar {
    zone: TimeZone,
    unit: String,
    weekday: Weekday,
    month: i8,
    day: i8,
    time: Time,
}

/// A window, in microseconds since the epoch.
#[derive(Clone, Copy, Debug)]
struct Found {
    start: u64,
    /// The start of the next window.
    end: u64,
    /// The local date at which the window begins, in days since 1970-01-01; 0 for earlier dates.
    date: u64,
}

thread_local! {
    /// The latest window found for each calendar. A search is slow.
    static FOUND: RefCell<HashMap<String, Found>> = RefCell::default();
    /// The end of each date for each calendar.
    static ENDS: RefCell<HashMap<(String, u64), u64>> = RefCell::default();
}

/// Returns the start of the window that contains `stamp` and the start of the next one, in
/// microseconds since the epoch.
pub(super) fn window_around(calendar: &CalendarWindow, stamp: u64) -> (u64, u64) {
    let Found { start, end, .. } = find(calendar, stamp);
    (start, end)
}

/// Returns the first local date of the window that contains `stamp`, in days since 1970-01-01.
pub(super) fn date_at(calendar: &CalendarWindow, stamp: u64) -> u64 {
    find(calendar, stamp).date
}

/// Returns the first instant, in microseconds since the epoch, of a window with a later date than
/// `date`, in days since 1970-01-01.
pub(super) fn end_of_date(calendar: &CalendarWindow, date: u64) -> u64 {
    let key = (calendar.to_string(), date);
    if let Some(known) = ENDS.with_borrow(|ends| ends.get(&key).copied()) {
        return known;
    }
    let end = || {
        let calendar = Calendar::read(&key.0)?;
        let date = EPOCH.checked_add(i64::try_from(date).ok()?.days()).ok()?;
        calendar.reached(calendar.begin(calendar.next_first(date)?))
    };
    let end = end().unwrap_or(MAX_EXACT);
    ENDS.with_borrow_mut(|ends| ends.insert(key, end));
    end
}

/// Returns `true` if both calendars are across zones and differ only in the zone.
pub(super) fn are_across_zones(one: &CalendarWindow, other: &CalendarWindow) -> bool {
    let in_utc = |calendar: &CalendarWindow| calendar.clone().in_zone("UTC");
    one.is_across_zones() && in_utc(one) == in_utc(other)
}

/// The date that is day 0.
const EPOCH: Date = Date::constant(1970, 1, 1);

fn find(calendar: &CalendarWindow, stamp: u64) -> Found {
    let spec = calendar.to_string();
    let known = FOUND.with_borrow(|found| found.get(&spec).copied());
    if let Some(found) = known.filter(|found| (found.start..found.end).contains(&stamp)) {
        return found;
    }
    let window = Calendar::read(&spec).and_then(|calendar| calendar.window_around(stamp));
    // An invalid spec has no window. The schedules contain none.
    let window = window.unwrap_or(Found { start: stamp, end: stamp, date: 0 });
    FOUND.with_borrow_mut(|found| found.insert(spec, window));
    window
}

impl Calendar {
    fn read(spec: &str) -> Option<Self> {
        let words: Vec<&str> = spec.split(' ').collect();
        let value = |option: &str| {
            let at = words.iter().position(|word| *word == option)?;
            words.get(at + 1).copied()
        };
        let (month, day) =
            match value("from").map(|from| from.split_once('-').unwrap_or(("1", from))) {
                Some((month, day)) => (month.parse().ok()?, day.parse().ok()?),
                None => (1, 1),
            };
        let time = match value("at") {
            Some(at) => {
                let (hour, minute) = at.split_once(':')?;
                Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()?
            }
            None => Time::midnight(),
        };
        let weekday = match value("start") {
            None | Some("monday") => Weekday::Monday,
            Some("tuesday") => Weekday::Tuesday,
            Some("wednesday") => Weekday::Wednesday,
            Some("thursday") => Weekday::Thursday,
            Some("friday") => Weekday::Friday,
            Some("saturday") => Weekday::Saturday,
            Some("sunday") => Weekday::Sunday,
            Some(_) => return None,
        };
        let zone = jiff::tz::db().get(value("calendar")?).ok()?;
        Some(Self { zone, unit: (*words.first()?).to_owned(), weekday, month, day, time })
    }

    fn window_around(&self, stamp: u64) -> Option<Found> {
        let shown = self.shown(i64::try_from(stamp).ok()?)?;
        let mut first = shown.date();
        while !self.is_first(first) || self.begin(first) > shown {
            first = first.yesterday().ok()?;
        }
        let date = u64::try_from(EPOCH.until(first).ok()?.get_days()).unwrap_or(0);
        let start = self.reached(self.begin(first))?;
        let mut next = first;
        loop {
            next = self.next_first(next)?;
            // A day that the zone skips begins when the next one does, so no window lies between.
            let end = self.reached(self.begin(next))?;
            if start < end {
                return Some(Found { start, end, date });
            }
        }
    }

    /// Returns the next day after `date` on which a window begins.
    fn next_first(&self, date: Date) -> Option<Date> {
        let mut next = date.tomorrow().ok()?;
        while !self.is_first(next) {
            next = next.tomorrow().ok()?;
        }
        Some(next)
    }

    /// Returns `true` if a window begins on this day.
    fn is_first(&self, date: Date) -> bool {
        let is_day = date.day() == self.day.min(date.days_in_month());
        match self.unit.as_str() {
            "d" => true,
            "w" => date.weekday() == self.weekday,
            "month" => is_day,
            _ => is_day && date.month() == self.month,
        }
    }

    fn begin(&self, date: Date) -> DateTime {
        date.to_datetime(self.time)
    }

    /// Returns the latest local time that the zone's clocks have shown up to an instant.
    fn shown(&self, micros: i64) -> Option<DateTime> {
        let at = Timestamp::from_microsecond(micros).ok()?;
        let long_ago = at.checked_sub(72.hours()).ok()?;
        let turned_back = self
            .zone
            .preceding(at)
            .map(|change| change.timestamp())
            .take_while(|change| *change > long_ago)
            .filter_map(|change| change.checked_sub(1.nanosecond()).ok());
        let shown = turned_back.chain([at]).map(|instant| self.zone.to_datetime(instant));
        shown.max()
    }

    /// Returns the first instant at which the zone's clocks have shown a local time.
    fn reached(&self, wall: DateTime) -> Option<u64> {
        let at = TimeZone::UTC.to_timestamp(wall).ok()?.as_microsecond();
        let far = 60 * 3_600_000_000;
        let (mut before, mut then) = (at - far, at + far);
        while then - before > 1 {
            let middle = before + (then - before) / 2;
            if self.shown(middle)? >= wall { then = middle } else { before = middle }
        }
        Some(u64::try_from(then).unwrap_or(0).min(MAX_EXACT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::random;
    use crate::dice::Dice;

    #[test]
    fn the_library_computes_the_windows_that_the_definition_has() {
        let mut dice = Dice::new(0x5eed);
        for _ in 0..2_000 {
            let calendar = random::calendar(&mut dice).unwrap();
            let stamp = match dice.below(4) {
                0 => dice.below(MAX_EXACT),
                // Around the day that Samoa skipped.
                1 => 1_325_200_000_000_000 + dice.below(300_000_000_000),
                _ => 1_700_000_000_000_000 + dice.below(90_000_000_000_000),
            };
            let expected = window_around(&calendar, stamp);
            let computed =
                calendar.window_at(sluicegate_core::Timestamp::from_micros_clamped(stamp));
            let computed = (computed.0.as_micros(), computed.1.as_micros());
            assert_eq!(computed, expected, "{calendar} at {stamp}");
            assert!((expected.0..expected.1).contains(&stamp), "{calendar} at {stamp}");
            // Check the boundaries themselves, where an error of one microsecond shows.
            for stamp in [expected.0, expected.1 - 1] {
                let computed =
                    calendar.window_at(sluicegate_core::Timestamp::from_micros_clamped(stamp));
                assert_eq!((computed.0.as_micros(), computed.1.as_micros()), expected);
            }
        }
    }
}
