//! The treatment of held units that are never settled.

use std::fmt;
use std::str::FromStr;

/// The treatment of a [hold](crate::Hold) that isn't settled by its end.
///
/// ```
/// use sluicegate_core::{Limit, OnExpiry};
///
/// let limit = Limit::new("llm", vec!["fixed_window 100/h"])?;
/// assert_eq!(limit.on_expiry(0), OnExpiry::Keep);
/// let returning = limit.with_on_expiry("return".parse()?);
/// assert!(returning.has_returns() && returning.on_expiry(0) == OnExpiry::Return);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OnExpiry {
    /// The units stay charged, because a crashed holder may have used them.
    #[default]
    Keep,
    /// The first request after the hold's end cancels it, as if no unit had been used. A holder
    /// that settles late, or crashes after using the units, has used them at no cost.
    Return,
}

/// The error for text that is neither `keep` nor `return`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OnExpiryError(String);

impl OnExpiry {
    /// Both words.
    pub const WORDS: [(&str, Self); 2] = [("keep", Self::Keep), ("return", Self::Return)];
}

impl FromStr for OnExpiry {
    type Err = OnExpiryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        word.map(|(_, on_expiry)| on_expiry).ok_or_else(|| OnExpiryError(crate::printable(text)))
    }
}

impl fmt::Display for OnExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Return => "return",
        })
    }
}

impl fmt::Display for OnExpiryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` isn't an outcome for unsettled units: write `keep` or `return`", self.0)
    }
}

impl std::error::Error for OnExpiryError {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_back_and_another_one_says_which_there_are() {
        for (word, on_expiry) in OnExpiry::WORDS {
            assert_eq!(word.parse::<OnExpiry>().unwrap(), on_expiry);
            assert_eq!(on_expiry.to_string(), word);
        }
        let error = "Return\n".parse::<OnExpiry>().unwrap_err().to_string();
        assert!(error.contains("`keep` or `return`") && !error.contains('\n'), "{error}");
    }
}
