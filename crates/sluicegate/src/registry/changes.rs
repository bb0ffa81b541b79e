//! The changes that a new configuration made, or why it was rejected.

use std::error::Error;
use std::fmt;

use sluicegate_core::LimitName;

use crate::uses::MissingNames;

/// The changes that a new configuration made.
///
/// Prints as one line: `added: a, b; removed: c; changed: d; settings: unknown_limits`, or `nothing changed`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// Added limits, in the order of the file.
    pub added: Vec<LimitName>,
    /// Removed limits. Their consumed units stay in the store until they expire.
    pub removed: Vec<LimitName>,
    /// Changed limits. Their consumed units are kept.
    pub changed: Vec<LimitName>,
    /// Changed fields other than limits, as the file spells them.
    pub settings: Vec<&'static str>,
    /// A sentence for each change, at most 100.
    pub details: Vec<String>,
}

impl Changes {
    /// Returns whether nothing changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && self.settings.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing changed");
        }
        let names = |names: &[LimitName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let settings = self.settings.iter().map(ToString::to_string).collect();
        let lists = [
            ("added", names(&self.added)),
            ("removed", names(&self.removed)),
            ("changed", names(&self.changed)),
            ("settings", settings),
        ];
        let mut between = "";
        for (what, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            write!(f, "{between}{what}: {}", list.join(", "))?;
            between = "; ";
        }
        Ok(())
    }
}

/// The reason why a new configuration was rejected. Nothing changed.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum ReloadError {
    /// A field changed that needs a restart.
    NeedsRestart {
        /// The fields, as the file spells them: `store`, `max_clock_back`, `memory`, `redis`,
        /// `listeners`, `service`.
        fields: Vec<&'static str>,
    },
    /// The configuration lacks names that the program [uses](crate::config::Uses): limits, or policies that the program
    /// names in costs.
    Missing(MissingNames),
    /// The caps of the embedded store can't hold one key of each limit.
    StoreTooSmall {
        /// The cap that is too small, and the minimum that works.
        message: String,
    },
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsRestart { fields } => write!(
                f,
                "the new configuration changes {}, which needs a restart, so the old one stays in force: restart, or change {} back",
                fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" and "),
                if fields.len() == 1 { "it" } else { "them" },
            ),
            Self::StoreTooSmall { message } => write!(
                f,
                "the new configuration doesn't fit into the embedded store, so the old one stays in force: {message}"
            ),
            Self::Missing(missing) => write!(
                f,
                "the new configuration lacks something, so the old one stays in force: {missing}"
            ),
        }
    }
}

impl Error for ReloadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NeedsRestart { .. } | Self::StoreTooSmall { .. } => None,
            Self::Missing(missing) => Some(missing),
        }
    }
}
