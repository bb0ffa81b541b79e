//! Switches, and what happens to unknown limits.

use std::fmt;

/// Whether something, such as a limit, is in force.
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
    /// Returns `On` if both are on.
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

/// Treatment of a request for a limit that doesn't exist.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum UnknownLimit {
    /// The request fails with [`RequestErrorKind::UnknownLimit`](crate::error::RequestErrorKind), which suggests a
    /// name. The first one per name is logged (`tracing`, level `ERROR`). Middleware answers with status 500.
    #[default]
    Error,
    /// The request passes.
    Pass,
    /// The request passes, and the first one per name logs a warning (`tracing`, level `WARN`).
    Warn,
    /// The request is denied.
    Deny,
}

impl UnknownLimit {
    /// The words of a file.
    pub(crate) const WORDS: [(&'static str, Self); 4] =
        [("error", Self::Error), ("pass", Self::Pass), ("warn", Self::Warn), ("deny", Self::Deny)];
}

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, then)| then == self);
        f.write_str(word.map_or("", |(word, _)| word))
    }
}
