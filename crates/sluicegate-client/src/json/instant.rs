//! Instants as text.

use std::fmt;

use jiff::fmt::temporal::DateTimePrinter;
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

impl Rfc3339 {
    /// Calls `write` with the text. Each line of a log has a time, and `write!` would cost as much again as the text.
    fn with<T>(self, write: impl FnOnce(&str) -> T) -> T {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
        let instant = i64::try_from(self.0.as_micros()).ok();
        let instant = instant.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        let mut text = String::with_capacity(32);
        // Every time of a store is in the range of both types, and writing to a string can't fail.
        let _ = PRINTER.print_timestamp(&instant.unwrap_or_default(), &mut text);
        write(&text)
    }
}

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|text| f.write_str(text))
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with(|text| serializer.serialize_str(text))
    }
}
