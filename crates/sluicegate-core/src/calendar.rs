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
pub type Boundaries = [Timestamp; 4];
