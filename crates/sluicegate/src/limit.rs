//! Parsing limits.

use std::error::Error;
use std::fmt;

use sluicegate_core::{Limit, LimitError, NameError, Policy, PolicyError, SpecError};

/// Builds a limit from its name and the specs of its policies, as in a config file.
///
/// ```
/// let limit = sluicegate::limit("login", ["token_bucket 10/s burst 20", "fixed_window 100/d"])?;
/// assert_eq!(limit.members().len(), 2);
///
/// let error = sluicegate::limit("login", ["token_bucket 10/m"]).unwrap_err();
/// assert!(error.to_string().contains("write `min` for minutes"));
/// # Ok::<(), sluicegate::InvalidLimit>(())
/// ```
///
/// # Errors
/// If the name, a spec, or the set of policies is invalid; the message says what to change.
pub fn limit<P: AsRef<str>>(
    name: &str,
    policies: impl IntoIterator<Item = P>,
) -> Result<Limit, InvalidLimit> {
    let name = name.parse().map_err(InvalidLimit::Name)?;
    let policies = policies
        .into_iter()
        .map(|spec| spec.as_ref().parse::<Policy>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(InvalidLimit::Policy)?;
    Limit::new(name, policies).map_err(InvalidLimit::Set)
}

/// Why text is not a limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// The name is invalid.
    Name(NameError),
    /// A policy's numbers are invalid.
    Numbers(PolicyError),
    /// The spec of a policy can't be parsed.
    Policy(SpecError),
    /// The policies can't form a limit.
    Set(LimitError),
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Numbers(error) => error.fmt(f),
            Self::Policy(error) => error.fmt(f),
            Self::Set(error) => error.fmt(f),
        }
    }
}

impl Error for InvalidLimit {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::Name(error) => error,
            Self::Numbers(error) => error,
            Self::Policy(error) => error,
            Self::Set(error) => error,
        })
    }
}
