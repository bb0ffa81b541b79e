//! Limits from text.

use std::error::Error;
use std::fmt;

use sluicegate_core::{Limit, LimitError, NameError, Policy, PolicyError, SpecError};

/// A limit from its name and the specs of its policies, the way a config file has them.
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
/// When the name, a spec, or the set of policies can't be used; the message says what to change.
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

/// Text that is no limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum InvalidLimit {
    /// The limit's name can't be used.
    Name(NameError),
    /// A policy's numbers can't be used.
    Numbers(PolicyError),
    /// The spec of a policy can't be read.
    Policy(SpecError),
    /// The policies can't be one limit.
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
