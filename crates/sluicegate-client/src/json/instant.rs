//! Instants as text.

use sluicegate_core::Timestamp;

/// Returns an instant as RFC 3339 has it, in UTC, with microseconds.
///
/// ```
/// use sluicegate_client::json::rfc_3339;
/// use sluicegate_core::Timestamp;
///
/// let instant = Timestamp::from_micros(1_790_000_000_000_042)?;
/// assert_eq!(rfc_3339(instant), "2026-09-21T14:13:20.000042Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn rfc_3339(instant: Timestamp) -> String {
    let micros = i64::try_from(instant.as_micros()).unwrap_or(i64::MAX);
    let instant = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    format!("{instant:.6}")
}
