//! The status of a file that is followed.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config_file::ConfigErrors;
use crate::registry::{Changes, ReloadError};

/// The status of a file that is followed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WatchStatus {
    /// The number of times the file changed the configuration in force.
    pub applied: u64,
    /// The number of times the file was read and changed nothing.
    pub unchanged: u64,
    /// The number of times the file couldn't be read or was rejected.
    pub failed: u64,
    /// The changes that the last applied content made.
    pub last_changes: Option<Arc<Changes>>,
    /// The reason why the file's current content is not in force; `None` if it is.
    pub last_error: Option<Arc<WatchError>>,
}

impl WatchStatus {
    /// Returns the sum of all outcomes.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.applied + self.unchanged + self.failed
    }
}

/// The reason why the content of a config file is not in force.
///
/// `{:#}` prints it on one line, for logs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WatchError {
    /// The file is missing or can't be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: Arc<io::Error>,
    },
    /// The content is not a valid configuration.
    Config(ConfigErrors),
    /// The configuration can't replace the one in force.
    Reload {
        /// The file.
        path: PathBuf,
        /// The cause.
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
                f.write_str("; the old configuration stays in force")
            }
            Self::Config(errors) => {
                errors.fmt(f)?;
                let separator = if f.alternate() { "; " } else { "\n" };
                write!(f, "{separator}the old configuration stays in force")
            }
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
