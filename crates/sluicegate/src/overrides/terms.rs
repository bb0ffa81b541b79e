//! The content of an override, and its lifetime.

use std::fmt;
use std::time::Duration;

use sluicegate_core::{Limit, Policy};

use crate::config_file::{OverrideError, Times, limit_times, limit_with};

/// The content of an override, which replaces the configuration for a key or a whole limit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OverrideTo {
    /// These policies: those of the limit, in the same order, with other numbers.
    Policies(Vec<Policy>),
    /// A multiple of the configuration's numbers.
    Times(Times),
    /// Requests pass, and are not counted.
    Allow,
    /// Requests are denied.
    Block,
}

/// An override that an operator sets.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::admin::{NewOverride, OverrideTo};
///
/// let more = NewOverride::new(OverrideTo::Times("10".parse()?))
///     .lasts(Duration::from_secs(2 * 60 * 60))
///     .note("launch day")
///     .by("maria");
/// assert_eq!(more.to().to_string(), "times 10");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct NewOverride {
    pub(super) to: OverrideTo,
    pub(super) lasts: Option<Duration>,
    pub(super) note: Option<String>,
    pub(super) by: Option<String>,
}

impl NewOverride {
    /// The maximum length of a note, in bytes.
    pub const MAX_NOTE: usize = 1_000;

    /// Makes an override without an end.
    pub const fn new(to: OverrideTo) -> Self {
        Self { to, lasts: None, note: None, by: None }
    }

    /// Sets its lifetime by the clock of the store: 1 ms to 3,660 days. By default it stays until it is cleared.
    pub const fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = Some(lasts);
        self
    }

    /// Sets a note for colleagues, at most [`MAX_NOTE`](Self::MAX_NOTE) bytes.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets the name of the caller, for the audit.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Returns its content.
    #[must_use]
    pub const fn to(&self) -> &OverrideTo {
        &self.to
    }
}

/// The effect of an override on its keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    Counted(Limit),
    Allowed,
    Blocked,
}

impl OverrideTo {
    /// Returns the effect on keys of a limit.
    ///
    /// # Errors
    /// Returns an error if the numbers don't fit the limit's policies.
    pub(crate) fn effect_on(&self, base: &Limit) -> Result<Effect, OverrideError> {
        Ok(match self {
            Self::Policies(policies) => Effect::Counted(limit_with(base, policies.clone())?),
            Self::Times(times) => Effect::Counted(limit_times(base, *times)?),
            Self::Allow => Effect::Allowed,
            Self::Block => Effect::Blocked,
        })
    }
}

/// Prints `times 10`, `allow`, `block` or the policies, separated by commas.
impl fmt::Display for OverrideTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policies(policies) => {
                for (index, policy) in policies.iter().enumerate() {
                    let between = if index == 0 { "" } else { ", " };
                    write!(f, "{between}{policy}")?;
                }
                Ok(())
            }
            Self::Times(times) => write!(f, "times {times}"),
            Self::Allow => f.write_str("allow"),
            Self::Block => f.write_str("block"),
        }
    }
}
