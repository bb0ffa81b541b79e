//! Units per length of time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{PolicyError, SpanError};
use crate::number::{MAX_EXACT, greatest_common_divisor};
use crate::time::Span;

/// A rate of `count` units per period, written as `100/s`, `1000/h` or `5/500ms`.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::Rate;
///
/// assert_eq!(Rate::per_second(100), "100/s".parse().unwrap());
/// assert_eq!(Rate::new(5, Duration::from_millis(500)).unwrap().to_string(), "5/500ms");
/// assert_eq!("0.5/s".parse::<Rate>().unwrap_err().parameter, "rate");
/// assert!(Rate::new(1, Duration::MAX).is_err(), "longer than 285 years");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Rate {
    count: u64,
    pub(crate) period: Span,
}

impl Rate {
    /// Creates a rate of `count` units per `period`, rounded up to whole microseconds. A count of 0
    /// is valid and admits nothing.
    ///
    /// # Errors
    /// Returns an error if `count` is above 2^53 − 1, or `period` is zero or longer than 285 years.
    pub fn new(count: u64, period: Duration) -> Result<Self, PolicyError> {
        if period > Span::MAX.into() {
            return Err(PolicyError::new("period", "is longer than 2^53 − 1 µs (285 years)"));
        }
        let period = Span::from(period);
        if count > MAX_EXACT {
            return Err(PolicyError::new(
                "rate",
                format!("{count} is above the largest count, {MAX_EXACT}"),
            ));
        }
        if period.is_zero() {
            return Err(PolicyError::new("period", "is 0, but must be at least 1us"));
        }
        Ok(Self { count, period })
    }

    /// Creates a rate of `count` units per second.
    #[must_use]
    pub const fn per_second(count: u32) -> Self {
        Self { count: count as u64, period: Span::SECOND }
    }

    /// Creates a rate of `count` units per minute.
    #[must_use]
    pub const fn per_minute(count: u32) -> Self {
        Self { count: count as u64, period: Span::MINUTE }
    }

    /// Creates a rate of `count` units per hour.
    #[must_use]
    pub const fn per_hour(count: u32) -> Self {
        Self { count: count as u64, period: Span::HOUR }
    }

    /// Creates a rate of `count` units per 24 hours.
    #[must_use]
    pub const fn per_day(count: u32) -> Self {
        Self { count: count as u64, period: Span::DAY }
    }

    /// Returns the units per period.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(self) -> Duration {
        Duration::from_micros(self.period.as_micros())
    }

    /// Returns the ticks that one unit costs, and the ticks that flow back per microsecond.
    ///
    /// Both are divided by their greatest common divisor, to keep the numbers in a state small.
    pub(crate) const fn ticks(self) -> (u64, u64) {
        let divisor = greatest_common_divisor(self.count, self.period.as_micros());
        (self.period.as_micros() / divisor, self.count / divisor)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_quota(f, self.count, self.period)
    }
}

/// Writes `s`, not `1s`.
fn write_period(f: &mut fmt::Formatter<'_>, period: Span) -> fmt::Result {
    let text = period.to_string();
    match text.strip_prefix('1') {
        Some(unit) if unit.starts_with(|c: char| c.is_ascii_alphabetic()) => f.write_str(unit),
        _ => f.write_str(&text),
    }
}

/// Writes N/PERIOD.
pub(crate) fn write_quota(
    f: &mut fmt::Formatter<'_>,
    limit: u64,
    window: impl Into<Span>,
) -> fmt::Result {
    write!(f, "{limit}/")?;
    write_period(f, window.into())
}

impl FromStr for Rate {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let (count, period) = text.split_once('/').ok_or_else(|| {
            PolicyError::new(
                "rate",
                format!("`{text}` is not a rate: write N/PERIOD, such as 100/s"),
            )
        })?;
        let count = parse_count("rate", count)?;
        let period: Span = period
            .parse()
            .map_err(|error: SpanError| PolicyError::new("period", error.to_string()))?;
        Self::new(count, period.into())
    }
}

/// Parses a whole number from 0 to [`MAX_EXACT`], digits only.
pub(crate) fn parse_count(parameter: &'static str, text: &str) -> Result<u64, PolicyError> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits_only
        .then(|| text.parse().ok().filter(|&count: &u64| count <= MAX_EXACT))
        .flatten()
        .ok_or_else(|| {
            PolicyError::new(
                parameter,
                format!("`{text}` is not a whole number from 0 to {MAX_EXACT}"),
            )
        })
}
