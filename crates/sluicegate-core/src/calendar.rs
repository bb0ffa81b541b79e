//! Calendar windows in a named time zone. The zone database is bundled with the program, so that
//! every node of a fleet computes the same boundaries.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;

use crate::error::PolicyError;
use crate::time::Timestamp;

/// A calendar day, week, month or year in a named time zone.
///
/// A window begins at the first instant of its first local day, even where daylight saving skips
/// midnight; weeks begin on Monday.
#[derive(Clone, Debug)]
pub struct CalendarWindow {
    unit: CalendarUnit,
    zone: String,
    time_zone: TimeZone,
    /// The window that was asked for last, which is nearly always the one that is asked for next:
    /// to compute it takes a hundred times as long as a decision.
    last: Arc<Mutex<Option<(Timestamp, Timestamp)>>>,
}

/// The length of a calendar window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// A local day: usually 23, 24 or 25 hours.
    Day,
    /// Monday to Sunday.
    Week,
    /// A calendar month.
    Month,
    /// A calendar year.
    Year,
}

impl CalendarUnit {
    /// The unit as a spec spells it: `d`, `w`, `month`, `year`.
    #[must_use]
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Day => "d",
            Self::Week => "w",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// Four consecutive boundaries, hence three windows: passed to a store that has a clock but no zone
/// database.
pub type Boundaries = [Timestamp; 4];

impl CalendarWindow {
    /// Windows of one `unit` in the time zone `zone`, an IANA name such as `Europe/Berlin` or
    /// `UTC`.
    ///
    /// # Errors
    /// If the bundled database has no such zone.
    pub fn new(unit: CalendarUnit, zone: &str) -> Result<Self, PolicyError> {
        let time_zone = jiff::tz::db().get(zone).map_err(|_| {
            PolicyError::new(
                "calendar",
                format!(
                    "`{}` is not in the IANA time zone database: write a name such as UTC or Asia/Tokyo",
                    zone.escape_debug()
                ),
            )
        })?;
        let zone = time_zone.iana_name().unwrap_or(zone).to_owned();
        Ok(Self { unit, zone, time_zone, last: Arc::default() })
    }

    /// The length of a window.
    #[must_use]
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// The zone's name.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// The window that holds `at`: its first instant, and the first instant after it.
    ///
    /// The last window that a timestamp can fall into ends at [`Timestamp::MAX`].
    #[must_use]
    pub fn window_at(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        // Nobody waits for another thread: it would take longer to compute.
        let last = self.last.try_lock().ok().and_then(|last| *last);
        if let Some((start, end)) = last
            && (start..end).contains(&at)
        {
            return (start, end);
        }
        let [_, start, end, _] = self.boundaries(at);
        if let Ok(mut last) = self.last.try_lock() {
            *last = Some((start, end));
        }
        (start, end)
    }

    /// The boundaries of the window before the one that holds `at`, of that one, and of the next.
    #[must_use]
    pub fn boundaries(&self, at: Timestamp) -> Boundaries {
        let mut first = self.first_day(at);
        let mut next = self.step(first, 1);
        // A zone that skips a whole local day makes two dates begin at one instant, and one that
        // repeats an hour across midnight puts an instant of one date after the next has begun.
        // Days after the last instant all begin at it: nothing is found by walking through them.
        while self.begins(next) <= at && self.begins(next) < Timestamp::MAX && next > first {
            first = next;
            next = self.step(first, 1);
        }
        let start = self.begins(first);
        let mut boundaries = [start; 4];
        let mut day = first;
        while boundaries[0] >= start && day > Date::MIN {
            day = self.step(day, -1);
            boundaries[0] = self.begins(day);
            if boundaries[0] == Timestamp::EPOCH {
                break;
            }
        }
        day = first;
        for index in 2..4 {
            let previous = boundaries[index - 1];
            loop {
                let following = self.step(day, 1);
                if following <= day || previous == Timestamp::MAX {
                    boundaries[index] = Timestamp::MAX;
                    break;
                }
                day = following;
                boundaries[index] = self.begins(day);
                if boundaries[index] > previous {
                    break;
                }
            }
        }
        boundaries
    }

    /// The first local day of the window that holds `at`.
    fn first_day(&self, at: Timestamp) -> Date {
        let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        let instant = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        let date = self.time_zone.to_datetime(instant).date();
        match self.unit {
            CalendarUnit::Day => date,
            CalendarUnit::Week => {
                let past = date.weekday().since(Weekday::Monday);
                date.checked_sub(i64::from(past).days()).unwrap_or(Date::MIN)
            }
            CalendarUnit::Month => date.first_of_month(),
            CalendarUnit::Year => date.first_of_year(),
        }
    }

    /// The first day of the window `windows` after the one that begins on `day`, or `day` itself
    /// where the calendar ends.
    fn step(&self, day: Date, windows: i64) -> Date {
        let span = match self.unit {
            CalendarUnit::Day => windows.days(),
            CalendarUnit::Week => windows.weeks(),
            CalendarUnit::Month => windows.months(),
            CalendarUnit::Year => windows.years(),
        };
        day.checked_add(span).unwrap_or(day)
    }

    /// The first instant of a local day: not always midnight, which a change of the clocks can
    /// skip or repeat.
    fn begins(&self, day: Date) -> Timestamp {
        let micros = day
            .to_zoned(self.time_zone.clone())
            .and_then(|zoned| zoned.start_of_day())
            .map_or(i64::MAX, |zoned| zoned.timestamp().as_microsecond());
        Timestamp::from_micros_clamped(u64::try_from(micros).unwrap_or(0))
    }
}

// The name says which zone it is; the table behind it follows from the name.
impl PartialEq for CalendarWindow {
    fn eq(&self, other: &Self) -> bool {
        self.unit == other.unit && self.zone == other.zone
    }
}

impl Eq for CalendarWindow {}

impl Hash for CalendarWindow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.unit.hash(state);
        self.zone.hash(state);
    }
}

impl fmt::Display for CalendarWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calendar {}", self.unit.keyword(), self.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(zone: &str, at: &str) -> [String; 2] {
        let micros = |text: &str| {
            let instant: jiff::Timestamp = text.parse().unwrap();
            Timestamp::from_micros_clamped(instant.as_microsecond().unsigned_abs())
        };
        let text = |at: Timestamp| {
            jiff::Timestamp::from_microsecond(at.as_micros().cast_signed()).unwrap().to_string()
        };
        let (start, end) =
            CalendarWindow::new(CalendarUnit::Day, zone).unwrap().window_at(micros(at));
        [start, end].map(text)
    }

    #[test]
    fn the_window_that_was_asked_for_last_is_taken_for_no_other() {
        for (unit, zone) in [(CalendarUnit::Day, "America/St_Johns"), (CalendarUnit::Month, "UTC")]
        {
            let window = CalendarWindow::new(unit, zone).unwrap();
            // Three days around a change of the clocks, and around a month.
            let start = 1_162_000_000_000_000_u64;
            for step in (0..600).chain((0..600).rev()).chain((0..600).step_by(97)) {
                let at = Timestamp::from_micros_clamped(start + step * 900_000_000 * 24);
                let [_, start, end, _] = window.boundaries(at);
                assert_eq!(window.window_at(at), (start, end), "{at:?} in {zone}");
                let last = Timestamp::from_micros_clamped(end.as_micros() - 1);
                assert_eq!(window.window_at(last), (start, end), "{last:?} in {zone}");
                assert_eq!(window.window_at(end).0, end, "{end:?} in {zone}");
            }
        }
    }

    /// At a minute past midnight of 29 October 2006 the clocks of St. John's went back to 23:01 of
    /// the 28th: what is the 28th again belongs to the day that has begun.
    #[test]
    fn an_hour_repeated_across_midnight_is_of_the_day_that_has_begun() {
        let zone = "America/St_Johns";
        let saturday = ["2006-10-28T02:30:00Z", "2006-10-29T02:30:00Z"];
        let sunday = ["2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z"];
        for (at, expected) in [
            ("2006-10-29T02:29:59Z", &saturday), // 23:59:59
            ("2006-10-29T02:30:30Z", &sunday),   // 00:00:30
            ("2006-10-29T02:31:00Z", &sunday),   // 23:01:00 again
            ("2006-10-29T03:29:59Z", &sunday),   // 23:59:59 again
            ("2006-10-29T03:30:00Z", &sunday),   // 00:00:00 again
        ] {
            assert_eq!(day(zone, at), *expected, "{at}");
        }
    }

    /// Samoa went from 29 to 31 December 2011.
    #[test]
    fn a_day_that_a_zone_skips_is_no_window() {
        let friday = ["2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"];
        assert_eq!(day("Pacific/Apia", "2011-12-30T10:00:00Z"), friday);
        assert_eq!(day("Pacific/Apia", "2011-12-30T09:59:59Z")[1], friday[0]);
    }
}
