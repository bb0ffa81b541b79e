//! Units of time, and the windows that they divide time into.

use std::fmt;

/// The unit of a limit. Its windows begin at multiples of its length since the epoch, in UTC.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Unit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
    /// 7 days, beginning on a Thursday.
    Week,
}

/// A window of a unit at some time.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Window {
    /// The beginning, in seconds since the epoch.
    pub start: u64,
    /// The whole seconds until the end, at least 1.
    pub left: u64,
}

impl Unit {
    pub(crate) const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Year, Self::Week];

    /// Returns the unit with this number in Envoy's messages: 1 for a second to 7 for a week.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.number() == number)
    }

    /// Returns the unit with this name, in letters of any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.to_uppercase();
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// Returns the number in Envoy's messages.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Second => 1,
            Self::Minute => 2,
            Self::Hour => 3,
            Self::Day => 4,
            Self::Month => 5,
            Self::Year => 6,
            Self::Week => 7,
        }
    }

    /// Returns the name in Envoy's messages, such as `MINUTE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "SECOND",
            Self::Minute => "MINUTE",
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Month => "MONTH",
            Self::Year => "YEAR",
            Self::Week => "WEEK",
        }
    }

    /// Returns the length in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        const DAY: u64 = 86_400;
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
            Self::Week => 7 * DAY,
        }
    }

    /// Returns the window at a time in microseconds since the epoch.
    #[must_use]
    pub const fn window(self, micros: u64) -> Window {
        let seconds = micros / 1_000_000;
        let passed = seconds % self.seconds();
        Window { start: seconds - passed, left: self.seconds() - passed }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_at_multiples_of_the_epoch() {
        assert_eq!(Unit::Minute.window(119_999_999), Window { start: 60, left: 1 });
        assert_eq!(Unit::Minute.window(120_000_000), Window { start: 120, left: 60 });
        assert_eq!(Unit::Second.window(5_900_000), Window { start: 5, left: 1 });
        assert_eq!(Unit::Week.window(0), Window { start: 0, left: 604_800 });
    }

    #[test]
    fn units_have_names_and_numbers() {
        for unit in Unit::ALL {
            assert_eq!(Unit::from_number(unit.number()), Some(unit));
            assert_eq!(Unit::from_name(&unit.name().to_lowercase()), Some(unit));
        }
        assert_eq!((Unit::from_number(0), Unit::from_name("UNKNOWN")), (None, None));
    }
}
