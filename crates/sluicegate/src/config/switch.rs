//! Switches, and what happens to unknown limits.

use std::fmt;

/// Whether a limit, or all of them, are in force.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Switch {
    /// In force.
    #[default]
    On,
    /// Not in force: everything passes, and nothing is counted.
    Off,
}

impl Switch {
    /// On if both are.
    pub(crate) const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::On, Self::On) => Self::On,
            _ => Self::Off,
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// What happens to a request for a limit that doesn't exist.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum UnknownLimit {
    /// It passes.
    Pass,
    /// It passes, and the first one per name logs a warning (`tracing`, level `WARN`).
    #[default]
    Warn,
    /// It is denied.
    Deny,
}

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Deny => "deny",
        })
    }
}
