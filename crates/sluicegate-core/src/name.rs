//! Names of policies and limits.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::NameError;

/// The name of a policy inside its limit: 1 to 32 characters of `a`–`z`, `0`–`9`, `_`, `-`.
///
/// The name identifies the policy's state. When only numbers change, the consumed units are kept; a
/// new name starts fresh.
///
/// ```
/// use sluicegate_core::PolicyName;
///
/// assert_eq!("per-day".parse::<PolicyName>().unwrap().as_str(), "per-day");
/// assert!("Per Day".parse::<PolicyName>().is_err());
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PolicyName(Arc<str>);

impl PolicyName {
    /// The maximum length of a name, in characters.
    pub const MAX_LEN: usize = 32;

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PolicyName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_valid = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(is_valid) {
            return Err(NameError(format!(
                "`{}` is not a policy name: use 1 to {} of the characters a-z, 0-9, _ and -",
                text.escape_debug(),
                Self::MAX_LEN
            )));
        }
        Ok(Self(text.into()))
    }
}

impl AsRef<str> for PolicyName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a limit: 1 to 64 characters of ASCII letters, digits and `_ - . : / @`.
///
/// ```
/// use sluicegate_core::LimitName;
///
/// assert_eq!("login.per-account".parse::<LimitName>().unwrap().as_str(), "login.per-account");
/// assert!("".parse::<LimitName>().is_err());
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LimitName(Arc<str>);

impl LimitName {
    /// The maximum length of a name, in characters.
    pub const MAX_LEN: usize = 64;

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of several limits together, which `from_str` would reject.
    pub(crate) fn joined(names: &[Self]) -> Self {
        let names: Vec<&str> = names.iter().map(Self::as_str).collect();
        Self(names.join(" + ").into())
    }
}

/// Finds a name among others by its text.
impl Borrow<str> for LimitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for LimitName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_valid = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/' | b'@')
        };
        if text.is_empty() || text.len() > Self::MAX_LEN || !text.bytes().all(is_valid) {
            let shown: String = text.chars().take(Self::MAX_LEN + 1).collect();
            return Err(NameError(format!(
                "`{}` is not a limit name: use 1 to {} ASCII letters, digits or any of _ - . : / @",
                shown.escape_debug(),
                Self::MAX_LEN
            )));
        }
        Ok(Self(text.into()))
    }
}

impl AsRef<str> for LimitName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
