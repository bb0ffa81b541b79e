//! Calendar windows, and what they are without the feature `calendar`.

#[cfg(not(feature = "calendar"))]
mod absent;
mod unit;
#[cfg(feature = "calendar")]
mod window;

use crate::time::Timestamp;

#[cfg(not(feature = "calendar"))]
pub use absent::CalendarWindow;
pub use unit::CalendarUnit;
#[cfg(feature = "calendar")]
pub use window::CalendarWindow;

/// Four consecutive boundaries of three windows, for a store that has a clock but no zone database.
pub type Boundaries = [Boundary; 4];

/// The beginning of a calendar window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Boundary {
    /// The first instant of the window.
    pub at: Timestamp,
    /// The first local date of the window, in days since 1970-01-01; 0 for earlier dates.
    pub date: u64,
}
