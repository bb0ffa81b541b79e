//! Calendar windows in a named time zone. The zone database is bundled with the program, so that
//! every node of a fleet computes the same boundaries.

use std::fmt;
use std::hash::{Hash, Hasher};

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
        Ok(Self { unit, zone, time_zone })
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
        let [_, start, end, _] = self.boundaries(at);
        (start, end)
    }

    /// The boundaries of the window before the one that holds `at`, of that one, and of the next.
    #[must_use]
    pub fn boundaries(&self, at: Timestamp) -> Boundaries {
        let mut first = self.first_day(at);
        // A zone that skips a whole local day makes two dates begin at one instant, and one that
        // repeats an hour around midnight can put an instant before its date's beginning.
        while self.begins(first) > at {
            first = self.step(first, -1);
        }
        let mut next = self.step(first, 1);
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
