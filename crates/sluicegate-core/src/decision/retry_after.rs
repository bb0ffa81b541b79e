//! The time at which a refused request may be retried.

use std::fmt;
use std::time::Duration;

use super::{NEVER, time};
use crate::time::Span;

/// The time at which a refused request may be retried.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::RetryAfter;
///
/// let after = |millis| RetryAfter::After(Duration::from_millis(millis));
/// assert_eq!(after(1_200).to_string(), "in 1.2 s");
/// assert_eq!(after(90_000).to_string(), "in 1 min 30 s");
/// assert_eq!(RetryAfter::Never.to_string(), "never");
/// assert_eq!(RetryAfter::NotRefused.to_string(), "now");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RetryAfter {
    /// The shortest wait that suffices if no other request comes first, at least 1 µs.
    After(Duration),
    /// Never: the cost is above the limit.
    Never,
    /// The request wasn't refused.
    NotRefused,
}

impl RetryAfter {
    /// Returns the wait as a duration; `None` when not refused or never.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::After(wait) => Some(wait),
            Self::Never | Self::NotRefused => None,
        }
    }

    /// Returns the wait in microseconds: 0 when not refused, `None` for never.
    #[must_use]
    pub fn as_micros(self) -> Option<u64> {
        match self {
            Self::After(wait) => Some(Span::from(wait).as_micros()),
            Self::Never => None,
            Self::NotRefused => Some(0),
        }
    }

    /// Returns the wait in whole milliseconds, rounded up: 0 when not refused, `None` for never.
    #[must_use]
    pub fn as_millis_ceil(self) -> Option<u64> {
        match self {
            Self::After(wait) => Some(Span::from(wait).as_millis_ceil()),
            Self::Never => None,
            Self::NotRefused => Some(0),
        }
    }

    /// Returns the wait in whole seconds, rounded up: 0 when not refused, `None` for never.
    #[must_use]
    pub fn as_secs_ceil(self) -> Option<u64> {
        match self {
            Self::After(wait) => Some(Span::from(wait).as_secs_ceil()),
            Self::Never => None,
            Self::NotRefused => Some(0),
        }
    }

    pub(super) const fn of(passes: bool, micros: u64) -> Self {
        match (passes, micros) {
            (true, _) => Self::NotRefused,
            (false, NEVER) => Self::Never,
            (false, micros) => Self::After(time(micros)),
        }
    }
}

impl fmt::Display for RetryAfter {
    /// Prints a wait in words, as `in 1.2 s`; `never`; or `now` for a request that wasn't refused.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(wait) => write!(f, "in {}", Span::from(*wait).in_words()),
            Self::Never => f.write_str("never"),
            Self::NotRefused => f.write_str("now"),
        }
    }
}
