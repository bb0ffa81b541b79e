//! Events of a client, for logs and counters.

use std::fmt;
use std::time::Duration;

use sluicegate::config::Changes;

/// An event of an [`XdsClient`](super::XdsClient).
#[derive(Debug)]
#[non_exhaustive]
pub enum XdsEvent {
    /// The control plane has accepted a stream.
    Connected,
    /// A push is in force.
    Applied {
        /// Its version.
        version: String,
        /// Its changes to the limits.
        changes: Changes,
    },
    /// A push was refused. The former rules stay in force.
    Refused {
        /// Its version.
        version: String,
        /// The reason.
        why: String,
    },
    /// There is no stream. The last rules stay in force.
    Disconnected {
        /// The reason.
        why: String,
        /// Time until the next attempt.
        pause: Duration,
    },
}

impl fmt::Display for XdsEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("the control plane has accepted a stream"),
            Self::Applied { version, changes } => {
                write!(f, "version `{version}` of the control plane is in force; {changes}")
            }
            Self::Refused { version, why } => write!(
                f,
                "version `{version}` of the control plane is refused, so the former rules stay in force: {why}"
            ),
            Self::Disconnected { why, pause } => write!(
                f,
                "the control plane is unreachable until the next attempt in {} ms, so the last rules stay in force: {why}",
                pause.as_millis()
            ),
        }
    }
}
