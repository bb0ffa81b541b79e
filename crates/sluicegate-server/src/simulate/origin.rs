//! The origin of decisions, and their times.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

/// The origin of decisions.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum From {
    Recorder,
    Log,
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recorder => "recorder",
            Self::Log => "log",
        })
    }
}

/// Returns a span in µs.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
