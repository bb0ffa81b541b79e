//! The length of a calendar window.

/// The length of a calendar window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// A local day: usually 23, 24 or 25 hours.
    Day,
    /// Seven local days.
    Week,
    /// A calendar month.
    Month,
    /// A calendar year.
    Year,
}

impl CalendarUnit {
    /// Returns the unit's keyword in a spec: `d`, `w`, `month`, `year`.
    #[must_use]
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Day => "d",
            Self::Week => "w",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Returns the maximum length of the unit, in local days.
    #[must_use]
    pub const fn longest_days(self) -> u64 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
            Self::Year => 366,
        }
    }
}
