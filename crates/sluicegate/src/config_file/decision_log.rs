//! The settings of the decision log.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The settings of the log of decisions. They are those of the service; the library writes no such log.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DecisionLogConfig {
    /// The file, or `-` for standard output. Default: `None`, for no log.
    pub file: Option<PathBuf>,
    /// The share of allowed decisions that is written. Default: all.
    pub sample: Sample,
    /// Maximum number of denials that are written in a second. Default: 1,000.
    pub denials_at_most: u64,
    /// The form of keys. Default: plain.
    pub keys: LoggedKeys,
}

/// A share from 0 to 1, in millionths. It prints as a decimal number.
///
/// ```
/// use sluicegate::config::Sample;
///
/// let sample: Sample = "0.010".parse()?;
/// assert_eq!((sample.millionths(), sample.to_string().as_str()), (10_000, "0.01"));
/// assert_eq!("1".parse(), Ok(Sample::ALL));
/// assert!("1.5".parse::<Sample>().is_err());
/// # Ok::<(), sluicegate::config::SampleError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Sample(u32);

/// The form of keys in a decision log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LoggedKeys {
    /// Keys as they are.
    #[default]
    Plain,
    /// Keyed hashes, from which no key can be computed.
    Hashed,
}

/// The error for text that isn't a share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SampleError;

impl DecisionLogConfig {
    /// The default of [`DecisionLogConfig::denials_at_most`].
    pub const DENIALS_AT_MOST: u64 = 1_000;
}

impl Default for DecisionLogConfig {
    /// Returns the settings without a file.
    fn default() -> Self {
        Self {
            file: None,
            sample: Sample::ALL,
            denials_at_most: Self::DENIALS_AT_MOST,
            keys: LoggedKeys::Plain,
        }
    }
}

impl Sample {
    /// The whole.
    pub const ALL: Self = Self(Self::WHOLE);
    /// The millionths of the whole.
    const WHOLE: u32 = 1_000_000;

    /// Returns the share in millionths, at most 1,000,000.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl FromStr for Sample {
    type Err = SampleError;

    fn from_str(text: &str) -> Result<Self, SampleError> {
        let (whole, parts) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| {
            matches!(digits.len(), 1..=20) && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let parts = parts.trim_end_matches('0');
        if !is_number(whole) || !(parts.is_empty() || is_number(parts)) || parts.len() > 6 {
            return Err(SampleError);
        }
        let whole: u32 = whole.parse().map_err(|_| SampleError)?;
        let millionths: u32 = format!("{parts:0<6}").parse().map_err(|_| SampleError)?;
        let sample = whole.checked_mul(Self::WHOLE).and_then(|whole| whole.checked_add(millionths));
        sample.filter(|sample| *sample <= Self::WHOLE).map(Self).ok_or(SampleError)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / Self::WHOLE, format!("{:06}", self.0 % Self::WHOLE));
        match parts.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            parts => write!(f, "{whole}.{parts}"),
        }
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "isn't a share: write a number from 0 to 1 with at most 6 decimals, such as 0.01",
        )
    }
}

impl std::error::Error for SampleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_prints_as_it_reads() {
        for text in ["0", "1", "0.5", "0.01", "0.000001", "0.999999"] {
            assert_eq!(text.parse::<Sample>().unwrap().to_string(), text);
        }
        for (text, millionths) in [("1.0", 1_000_000), ("0.50", 500_000), ("00.1", 100_000)] {
            assert_eq!(text.parse(), Ok(Sample(millionths)));
        }
        for text in [
            "",
            ".",
            ".5",
            "5",
            "1.1",
            "-1",
            "+1",
            "1e-3",
            "0.0000001",
            "9999999999",
            "a",
            "0.x",
            "0. 1",
        ] {
            assert_eq!(text.parse::<Sample>(), Err(SampleError), "{text}");
        }
    }
}
