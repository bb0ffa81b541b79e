//! What came of a file that is followed.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::changes::{Changes, ReloadError};
use crate::config::ConfigErrors;

/// What came of a file that is followed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WatchStatus {
    /// How often it changed what is in force.
    pub applied: u64,
    /// How often it was read and said what is in force already.
    pub unchanged: u64,
    /// How often it couldn't be read or used.
    pub failed: u64,
    /// What the last one that was applied changed.
    pub last_changes: Option<Arc<Changes>>,
    /// Why the file as it is now is not what is in force; `None` when it is.
    pub last_error: Option<Arc<WatchError>>,
}

impl WatchStatus {
    /// How often there was something to be done: all outcomes together.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.applied + self.unchanged + self.failed
    }
}

/// Why a config file is not what is in force.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchError {
    /// It isn't there, or can't be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: Arc<io::Error>,
    },
    /// It is no configuration.
    Config(ConfigErrors),
    /// It says what can't come into force.
    Reload {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ReloadError,
    },
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => {
                let path = path.display();
                match error.kind() {
                    io::ErrorKind::NotFound => write!(f, "{path}: is gone")?,
                    _ => write!(f, "{path}: can't be read: {error}")?,
                }
                f.write_str("; the configuration stays as it was")
            }
            Self::Config(errors) => write!(f, "{errors}\nthe configuration stays as it was"),
            Self::Reload { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Error for WatchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(&**error),
            Self::Config(errors) => Some(errors),
            Self::Reload { error, .. } => Some(error),
        }
    }
}
