//! The local date and time at which calendar windows begin.

use std::fmt;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time, Weekday};

use crate::calendar::unit::CalendarUnit;
use crate::error::PolicyError;

/// The local date and time at which the windows of a unit begin. The defaults are Monday, the first
/// day of the month or year, and midnight.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Start {
    weekday: Weekday,
    /// The month of a year.
    month: i8,
    /// The day of a month. In a month without that day, the last day.
    day: i8,
    time: Time,
}

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

impl Default for Start {
    fn default() -> Self {
        Self { weekday: Weekday::Monday, month: 1, day: 1, time: Time::midnight() }
    }
}

impl Start {
    /// Reads the value of `start`: a day of the week.
    pub(super) fn with_weekday(self, unit: CalendarUnit, text: &str) -> Result<Self, PolicyError> {
        let refuse = |message: String| PolicyError::new("start", message);
        if unit != CalendarUnit::Week {
            return Err(refuse(format!(
                "`start` is the first day of a week: it goes with the period w, not with {}",
                unit.keyword()
            )));
        }
        let found = WEEKDAYS.iter().find(|(word, _)| *word == text);
        let (_, weekday) = found.ok_or_else(|| {
            let words = WEEKDAYS.map(|(word, _)| word).join(", ");
            refuse(format!("`{}` is not a day of the week: write one of {words}", shown(text)))
        })?;
        Ok(Self { weekday: *weekday, ..self })
    }

    /// Reads the value of `from`: the first day of a month, such as `15`, or of a year, such as `04-06`.
    pub(super) fn with_date(self, unit: CalendarUnit, text: &str) -> Result<Self, PolicyError> {
        let refuse = |message: String| PolicyError::new("from", message);
        match unit {
            CalendarUnit::Month => {
                let day = number(text, 1..=2).filter(|day| (1..=31).contains(day));
                let day = day.ok_or_else(|| {
                    refuse(format!("`{}` is not a day of a month: write 1 to 31", shown(text)))
                })?;
                Ok(Self { day, ..self })
            }
            CalendarUnit::Year => {
                // A leap year has each day that a year can have.
                let date = text.split_once('-').and_then(|(month, day)| {
                    Date::new(2024, number(month, 2..=2)?, number(day, 2..=2)?).ok()
                });
                let date = date.ok_or_else(|| {
                    refuse(format!(
                        "`{}` is not a day of a year: write a month and a day such as 04-06",
                        shown(text)
                    ))
                })?;
                Ok(Self { month: date.month(), day: date.day(), ..self })
            }
            CalendarUnit::Day | CalendarUnit::Week => Err(refuse(format!(
                "`from` is the first day of a month or year: it goes with the periods month and year, \
                 not with {}{}",
                unit.keyword(),
                if unit == CalendarUnit::Week { "; write `start sunday` for weeks" } else { "" }
            ))),
        }
    }

    /// Reads the value of `at`: a time of day such as `06:00`.
    pub(super) fn with_time(self, text: &str) -> Result<Self, PolicyError> {
        let time = text.split_once(':').and_then(|(hour, minute)| {
            Time::new(number(hour, 2..=2)?, number(minute, 2..=2)?, 0, 0).ok()
        });
        let time = time.ok_or_else(|| {
            let message = format!("`{}` is not a time of day: write 00:00 to 23:59", shown(text));
            PolicyError::new("at", message)
        })?;
        Ok(Self { time, ..self })
    }

    /// Returns the day that represents a unit's window that begins on `date` or contains it: the
    /// first day of the week, month or year.
    pub(super) fn base(self, unit: CalendarUnit, date: Date) -> Date {
        match unit {
            CalendarUnit::Day => date,
            CalendarUnit::Week => {
                let past = date.weekday().since(self.weekday);
                date.checked_sub(i64::from(past).days()).unwrap_or(Date::MIN)
            }
            CalendarUnit::Month => date.first_of_month(),
            CalendarUnit::Year => date.first_of_year(),
        }
    }

    /// Returns the local date and time at which the window that `base` represents begins.
    pub(super) fn of(self, unit: CalendarUnit, base: Date) -> DateTime {
        let month = match unit {
            CalendarUnit::Day | CalendarUnit::Week => return base.to_datetime(self.time),
            CalendarUnit::Month => base,
            CalendarUnit::Year => Date::new(base.year(), self.month, 1).unwrap_or(base),
        };
        let day = self.day.min(month.days_in_month());
        let date = Date::new(month.year(), month.month(), day).unwrap_or(month);
        date.to_datetime(self.time)
    }

    /// Writes the options of a spec that differ from the default, each after a space.
    pub(super) fn write(self, unit: CalendarUnit, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        if self.weekday != default.weekday {
            let word = WEEKDAYS.iter().find(|(_, weekday)| *weekday == self.weekday);
            write!(f, " start {}", word.map_or("monday", |(word, _)| word))?;
        }
        if (self.month, self.day) != (default.month, default.day) {
            match unit {
                CalendarUnit::Year => write!(f, " from {:02}-{:02}", self.month, self.day)?,
                _ => write!(f, " from {}", self.day)?,
            }
        }
        if self.time != default.time {
            write!(f, " at {:02}:{:02}", self.time.hour(), self.time.minute())?;
        }
        Ok(())
    }
}

/// Parses a whole number of that many digits.
fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i8> {
    let is_fit = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_fit.then(|| text.parse().ok()).flatten()
}

/// Returns the beginning of a value, enough to recognize it.
fn shown(text: &str) -> String {
    text.chars().take(40).collect::<String>().escape_debug().to_string()
}
