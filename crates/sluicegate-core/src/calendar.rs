//! Calendar windows, and what they are without the feature `calendar`.

#[cfg(not(feature = "calendar"))]
mod absent;
#[cfg(feature = "calendar")]
mod window;

use crate::time::Timestamp;

#[cfg(not(feature = "calendar"))]
pub use absent::CalendarWindow;
#[cfg(feature = "calendar")]
pub use window::CalendarWindow;

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
}

/// Four consecutive boundaries of three windows, for a store that has a clock but no zone database.
pub type Boundaries = [Timestamp; 4];
