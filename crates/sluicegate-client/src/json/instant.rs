//! Instants as text.

use std::fmt;

use serde::{Serialize, Serializer};
use sluicegate_core::Timestamp;

/// An instant that prints as RFC 3339 has it, in UTC, with microseconds.
///
/// ```
/// use sluicegate_client::json::Rfc3339;
/// use sluicegate_core::Timestamp;
///
/// let instant = Timestamp::from_micros(1_790_000_000_000_042)?;
/// assert_eq!(Rfc3339(instant).to_string(), "2026-09-21T14:13:20.000042Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rfc3339(pub Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = i64::try_from(self.0.as_micros()).ok();
        let instant = instant.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        // Every time of a store is in the range of both types.
        write!(f, "{:.6}", instant.unwrap_or_default())
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
