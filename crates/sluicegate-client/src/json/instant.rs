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
        let mut text = Text { bytes: [0; 32], length: 0 };
        // Every time of a store is in the range of both types, and a text takes what it is given.
        let _ = PRINTER.print_timestamp(&instant.unwrap_or_default(), &mut text);
        write(str::from_utf8(&text.bytes[..text.length]).unwrap_or_default())
    }
}

/// A short text without an allocation. A time has at most 30 characters, and the text cuts off more.
struct Text {
    bytes: [u8; 32],
    length: usize,
}

impl jiff::fmt::Write for Text {
    fn write_str(&mut self, part: &str) -> Result<(), jiff::Error> {
        for (place, byte) in self.bytes[self.length..].iter_mut().zip(part.bytes()) {
            *place = byte;
            self.length += 1;
        }
        Ok(())
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
