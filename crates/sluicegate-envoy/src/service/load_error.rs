//! Rules that can't be used.

use std::error::Error;
use std::fmt;

use sluicegate::error::ReloadError;
use sluicegate_core::LimitError;

use crate::incumbent::LoadErrors;

/// Rules that can't be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A rule can't be a limit.
    Rule(LimitError),
    /// `x_sluicegate` blocks have problems.
    Blocks(LoadErrors),
    /// The registry refused the configuration with the rules.
    Registry(ReloadError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(error) => write!(f, "a rule can't be a limit: {error}"),
            Self::Blocks(errors) => errors.fmt(f),
            Self::Registry(error) => write!(f, "the rules can't be used: {error}"),
        }
    }
}

impl Error for LoadError {}

impl From<LimitError> for LoadError {
    fn from(error: LimitError) -> Self {
        Self::Rule(error)
    }
}
