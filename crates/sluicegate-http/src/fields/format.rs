//! The formats of response fields.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The format of the response fields that report limits to clients.
///
/// Every format adds `Retry-After` to a denial.
///
/// | parses from and prints as | fields |
/// | --- | --- |
/// | `none` | none |
/// | `draft-11` (default) | `RateLimit-Policy: "burst";q=20;w=2` and `RateLimit: "burst";r=19;t=1` |
/// | `draft-next` | like `draft-11` with `a` and `w` for `r` and `t`, the cost `c`, and `RateLimit-Partition` |
/// | `draft-03` | `RateLimit-Limit: 20, 20;w=2;name="burst"`, `RateLimit-Remaining`, `RateLimit-Reset` |
/// | `x-ratelimit` | `X-RateLimit-Limit`, `-Remaining` and `-Reset` in seconds from now |
/// | `x-ratelimit-unix` | like `x-ratelimit` with the reset in seconds since the Unix epoch |
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
    /// The upcoming draft after -11: available quota `a`, effective window `w`, cost `c`, and the
    /// partition of the quota.
    DraftNext,
    /// draft-ietf-httpapi-ratelimit-headers-03: three fields for the policy that is closest to its
    /// limit.
    Draft03,
    /// The fields that many services send, for the policy that is closest to its limit. The reset is
    /// in seconds from now.
    XRateLimit,
    /// Like [`XRateLimit`](Self::XRateLimit), with the reset as a Unix time in seconds.
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

    /// Returns the names of the fields and `Retry-After`, as a value of
    /// `Access-Control-Expose-Headers`. Without it, browsers hide them from scripts from other
    /// origins.
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

/// A [`FieldFormat`] failed to parse.
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
