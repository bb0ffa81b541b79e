//! When a refused request may be tried again.

use std::time::Duration;

use super::{NEVER, span};
use crate::time::Span;

/// When a refused request may be tried again.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RetryAfter {
    /// After this long, at least 1 µs: the shortest wait that suffices if no other request comes
    /// first.
    After(Span),
    /// Never: the cost is above the limit.
    Never,
    /// It was not refused.
    NotRefused,
}

impl RetryAfter {
    /// The wait as a duration; `None` when not refused or never.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::After(span) => Some(span.into()),
            Self::Never | Self::NotRefused => None,
        }
    }

    /// The wait in whole milliseconds, rounded up: 0 when not refused, `None` for never.
    #[must_use]
    pub const fn as_millis_ceil(self) -> Option<u64> {
        match self {
            Self::After(span) => Some(span.as_millis_ceil()),
            Self::Never => None,
            Self::NotRefused => Some(0),
        }
    }

    /// The wait in whole seconds, rounded up: 0 when not refused, `None` for never.
    #[must_use]
    pub const fn as_secs_ceil(self) -> Option<u64> {
        match self {
            Self::After(span) => Some(span.as_secs_ceil()),
            Self::Never => None,
            Self::NotRefused => Some(0),
        }
    }

    pub(super) const fn of(passes: bool, micros: u64) -> Self {
        match (passes, micros) {
            (true, _) => Self::NotRefused,
            (false, NEVER) => Self::Never,
            (false, micros) => Self::After(span(micros)),
        }
    }
}
