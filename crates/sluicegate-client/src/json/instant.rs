//! Instants as text.

use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::ops::Range;

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

/// The text of an instant. The last one is in the year 2255, so all texts are equally long.
type Text = [u8; EPOCH.len()];

const EPOCH: &[u8; 27] = b"1970-01-01T00:00:00.000000Z";
/// Places of the microseconds in a text.
const MICROS: Range<usize> = 20..26;

thread_local! {
    /// The last second that this thread printed, with its text. A log has many lines of one second.
    static LAST: Cell<(u64, Text)> = const { Cell::new((0, *EPOCH)) };
}

impl Rfc3339 {
    fn text(self) -> Text {
        let micros = self.0.as_micros();
        let (second, mut rest) = (micros / 1_000_000, micros % 1_000_000);
        let (last, mut text) = LAST.get();
        if last != second {
            text = print(second);
            LAST.set((second, text));
        }
        for digit in text[MICROS].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
        }
        text
    }
}

/// Returns the text of a second's beginning.
fn print(second: u64) -> Text {
    let second = i64::try_from(second).unwrap_or_default();
    let instant = jiff::Timestamp::from_second(second).unwrap_or_default();
    let mut text = *EPOCH;
    // It is exactly as long. Decisions allocate nothing.
    let _ = write!(text.as_mut_slice(), "{instant:.6}");
    text
}

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(str::from_utf8(&self.text()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instant_has_its_own_text() {
        let text = |micros| Rfc3339(Timestamp::from_micros_clamped(micros)).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(1_790_000_000_999_999), "2026-09-21T14:13:20.999999Z");
        assert_eq!(text(1_790_000_001_000_000), "2026-09-21T14:13:21.000000Z");
        assert_eq!(text(1_790_000_000_000_001), "2026-09-21T14:13:20.000001Z");
        assert_eq!(text(u64::MAX), "2255-06-05T23:47:34.740991Z");
    }

    #[test]
    fn the_text_of_another_second_allocates_nothing() {
        let mut last = *EPOCH;
        let allocated = allocation_counter::measure(|| {
            for second in 1..=9 {
                last = Rfc3339(Timestamp::from_micros_clamped(second * 1_000_000)).text();
            }
        });
        assert_eq!((&last, allocated.count_total), (b"1970-01-01T00:00:09.000000Z", 0));
    }
}
