//! Instants and lengths of time, in whole microseconds.

mod words;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{InvalidNumber, PolicyError, SpanError};
use crate::number::MAX_EXACT;

/// An instant: whole microseconds since the Unix epoch, at most 2^53 − 1 (the year 2255).
///
/// ```
/// use sluicegate_core::Timestamp;
///
/// let instant = Timestamp::from_micros(1_699_920_000_000_000).unwrap();
/// assert_eq!(instant.as_micros(), 1_699_920_000_000_000);
/// assert!(Timestamp::from_micros(1 << 53).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last instant.
    pub const MAX: Self = Self(MAX_EXACT);

    /// Creates the instant `micros` microseconds after the Unix epoch.
    ///
    /// # Errors
    /// Returns an error if `micros` is above 2^53 − 1.
    pub const fn from_micros(micros: u64) -> Result<Self, InvalidNumber> {
        if micros > MAX_EXACT {
            return Err(InvalidNumber::new("time in microseconds", micros, 0, MAX_EXACT));
        }
        Ok(Self(micros))
    }

    /// Creates the nearest valid instant, for clocks, which can't fail.
    #[must_use]
    pub const fn from_micros_clamped(micros: u64) -> Self {
        if micros > MAX_EXACT { Self::MAX } else { Self(micros) }
    }

    /// Returns the microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the instant `time` later, rounded up to a microsecond, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, time: Duration) -> Self {
        Self::from_micros_clamped(self.0.saturating_add(Span::from(time).0))
    }
}

/// A length of time in whole microseconds, from 0 to 2^53 − 1 (285 years).
///
/// Parses from and prints as a whole number and one of the units `us ms s min h d w`. The number is
/// optional: `h` is `1h`.
///
/// ```
/// use sluicegate_core::Span;
///
/// let span: Span = "90s".parse().unwrap();
/// assert_eq!(span.as_micros(), 90_000_000);
/// assert_eq!(span.to_string(), "90s");
/// assert_eq!("h".parse::<Span>().unwrap(), Span::HOUR);
/// assert!("5m".parse::<Span>().unwrap_err().to_string().contains("min"));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Span(u64);

impl Span {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// 1 ms.
    pub const MILLISECOND: Self = Self(1_000);
    /// 1 s.
    pub const SECOND: Self = Self(1_000_000);
    /// 60 s.
    pub const MINUTE: Self = Self(60 * Self::SECOND.0);
    /// 60 min.
    pub const HOUR: Self = Self(60 * Self::MINUTE.0);
    /// 24 h: not a calendar day.
    pub const DAY: Self = Self(24 * Self::HOUR.0);
    /// 7 × 24 h.
    pub const WEEK: Self = Self(7 * Self::DAY.0);
    /// The longest span.
    pub const MAX: Self = Self(MAX_EXACT);

    /// Creates a span of `micros` microseconds.
    ///
    /// # Errors
    /// Returns an error if `micros` is above 2^53 − 1.
    pub const fn from_micros(micros: u64) -> Result<Self, InvalidNumber> {
        if micros > MAX_EXACT {
            return Err(InvalidNumber::new("span in microseconds", micros, 0, MAX_EXACT));
        }
        Ok(Self(micros))
    }

    /// Creates a span of `millis` milliseconds.
    ///
    /// # Errors
    /// Returns an error if the span is above 2^53 − 1 microseconds.
    pub const fn from_millis(millis: u64) -> Result<Self, InvalidNumber> {
        Self::from_micros(millis.saturating_mul(1_000))
    }

    /// Returns the span in microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the span in whole milliseconds, rounded up.
    #[must_use]
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Returns the span in whole seconds, rounded up.
    #[must_use]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Self::SECOND.0)
    }

    /// Returns `true` if the span is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// The units of a span, longest first. `m` is deliberately missing, because it could mean minutes,
/// months or milli.
const UNITS: [(&str, Span); 7] = [
    ("w", Span::WEEK),
    ("d", Span::DAY),
    ("h", Span::HOUR),
    ("min", Span::MINUTE),
    ("s", Span::SECOND),
    ("ms", Span::MILLISECOND),
    ("us", Span(1)),
];

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let count = match number {
            "" => 1,
            number => number.parse::<u64>().map_err(|_| SpanError::too_long(text))?,
        };
        let unit = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, span)| span.0)
            .ok_or_else(|| SpanError::unit(text, unit))?;
        let micros = count.checked_mul(unit).ok_or_else(|| SpanError::too_long(text))?;
        Self::from_micros(micros).map_err(|_| SpanError::too_long(text))
    }
}

impl fmt::Display for Span {
    /// Prints the shortest exact form, with the longest unit that divides the span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let (name, unit) = UNITS
            .iter()
            .find(|(_, unit)| self.0.is_multiple_of(unit.0))
            .unwrap_or(&("us", Self(1)));
        write!(f, "{}{name}", self.0 / unit.0)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_micros(span.0)
    }
}

impl From<Duration> for Span {
    /// Rounds up to a whole microsecond, so that no wait is too short. Saturates at [`Span::MAX`].
    fn from(duration: Duration) -> Self {
        let micros = u64::from(duration.subsec_nanos().div_ceil(1_000));
        Self(duration.as_secs().saturating_mul(1_000_000).saturating_add(micros).min(MAX_EXACT))
    }
}

/// Checks the length of a window, from 1us to 100 years, and returns it in µs.
///
/// The two-cell counter adds two windows to the current time. With 100 years, this sum is still
/// exact in Lua.
pub(crate) fn check_window(window: Duration) -> Result<u64, PolicyError> {
    const LONGEST: u64 = 36_525 * Span::DAY.0;
    let window = Span::from(window);
    if window.is_zero() || window.0 > LONGEST {
        return Err(PolicyError::new(
            "window",
            format!("{window} is not from 1us to 36525d (100 years)"),
        ));
    }
    Ok(window.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_as_they_read() {
        for text in ["1us", "1ms", "90s", "1min", "36h", "1d", "2w", "0s", "1500ms"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_span_is_refused_with_what_to_write_instead() {
        for (text, hint) in [
            ("5m", "min"),
            ("5", "ms"),
            ("5sec", "write `s`"),
            ("5 sec", "write `s`"),
            ("5months", "`month` has no fixed length"),
            ("99999999999999999999s", "285 years"),
            ("1.5s", "whole"),
        ] {
            let message = text.parse::<Span>().unwrap_err().to_string();
            assert!(message.contains(hint), "{text}: {message}");
        }
    }

    #[test]
    fn durations_round_up_to_a_microsecond() {
        assert_eq!(Span::from(Duration::from_nanos(1)).as_micros(), 1);
        assert_eq!(Span::from(Duration::MAX), Span::MAX);
    }
}
