//! Which response fields tell a client about its limits.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The response fields that tell a client about its limits.
///
/// `Retry-After` on a denial is no part of a format: it is always there.
///
/// | reads and prints as | fields |
/// | --- | --- |
/// | `none` | none |
/// | `draft-11` (default) | `RateLimit-Policy: "burst";q=20;w=2` and `RateLimit: "burst";r=19;t=1` |
/// | `draft-next` | the same with `a` and `w`, the cost `c`, and `RateLimit-Partition` |
/// | `draft-03` | `RateLimit-Limit: 20, 20;w=2;name="burst"`, `RateLimit-Remaining`, `RateLimit-Reset` |
/// | `x-ratelimit` | `X-RateLimit-Limit`, `-Remaining` and `-Reset`, which is in seconds from now |
/// | `x-ratelimit-unix` | the same with a reset in seconds since the Unix epoch |
///
/// ```
/// use sluicegate_http::FieldFormat;
///
/// assert_eq!("draft-11".parse(), Ok(FieldFormat::default()));
/// assert_eq!(FieldFormat::XRateLimitUnix.to_string(), "x-ratelimit-unix");
/// assert!("draft-7".parse::<FieldFormat>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum FieldFormat {
    /// No fields.
    None,
    /// draft-ietf-httpapi-ratelimit-headers-11.
    #[default]
    Draft11,
    /// The text that is to follow it: available quota `a`, effective window `w`, cost `c`, and
    /// what partitions the quota.
    DraftNext,
    /// draft-ietf-httpapi-ratelimit-headers-03: three fields, of the policy that is closest to
    /// its limit.
    Draft03,
    /// What many services send, of the policy that is closest to its limit; the reset in seconds
    /// from now.
    XRateLimit,
    /// The same with the reset as a Unix time in seconds.
    XRateLimitUnix,
}

impl FieldFormat {
    const WORDS: [(&'static str, Self); 6] = [
        ("none", Self::None),
        ("draft-11", Self::Draft11),
        ("draft-next", Self::DraftNext),
        ("draft-03", Self::Draft03),
        ("x-ratelimit", Self::XRateLimit),
        ("x-ratelimit-unix", Self::XRateLimitUnix),
    ];

    /// The names of the fields, and `Retry-After`, as `Access-Control-Expose-Headers` lists them:
    /// without it a browser hides them from scripts of other origins.
    #[must_use]
    pub const fn exposed(self) -> &'static str {
        match self {
            Self::None => "Retry-After",
            Self::Draft11 => "RateLimit, RateLimit-Policy, Retry-After",
            Self::DraftNext => "RateLimit, RateLimit-Partition, RateLimit-Policy, Retry-After",
            Self::Draft03 => "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After",
            Self::XRateLimit | Self::XRateLimitUnix => {
                "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
            }
        }
    }
}

impl fmt::Display for FieldFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, format)| format == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}

impl FromStr for FieldFormat {
    type Err = FieldFormatError;

    fn from_str(text: &str) -> Result<Self, FieldFormatError> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| FieldFormatError(text.chars().take(40).collect()))
    }
}

/// A word that is no format of response fields.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldFormatError(String);

impl fmt::Display for FieldFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a format of response fields: write one of ", self.0.escape_debug())?;
        f.write_str(&FieldFormat::WORDS.map(|(word, _)| word).join(", "))
    }
}

impl Error for FieldFormatError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_print_as_they_read() {
        for (word, format) in FieldFormat::WORDS {
            assert_eq!((word.parse(), format.to_string()), (Ok(format), word.to_owned()));
        }
        assert_eq!(
            "Draft11".parse::<FieldFormat>().unwrap_err().to_string(),
            "`Draft11` is not a format of response fields: write one of none, draft-11, draft-next, draft-03, x-ratelimit, x-ratelimit-unix"
        );
    }
}
