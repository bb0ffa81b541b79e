//! Errors of a test's server.

use std::fmt;
use std::io;

use super::binary::DiscoveryError;

/// The reason why a server couldn't be started, reached or controlled.
#[non_exhaustive]
pub enum ServerError {
    /// No server program can be used.
    Discovery(DiscoveryError),
    /// The server didn't start. The fields contain the reason and the end of its log.
    Start {
        /// The program, and its behavior instead of an answer.
        why: String,
        /// The server's own log; empty if it wrote none.
        log: String,
    },
    /// The server process is not running (killed, or stopped by itself).
    NotRunning,
    /// The server answered with an error reply.
    Refused(String),
    /// The system refused an operation.
    Io {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl ServerError {
    /// Returns a function for `map_err` that names the operation.
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discovery(error) => fmt::Display::fmt(error, formatter),
            Self::Start { why, log } => write!(formatter, "{why}; its log:\n{log}"),
            Self::NotRunning => formatter.write_str("the server process is not running"),
            Self::Refused(text) => write!(formatter, "the server answered: {text}"),
            Self::Io { doing, source } => write!(formatter, "{doing}: {source}"),
        }
    }
}

impl fmt::Debug for ServerError {
    /// Writes the displayed text, because a test that unwraps the error should show the server's
    /// log line by line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Discovery(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<DiscoveryError> for ServerError {
    fn from(error: DiscoveryError) -> Self {
        Self::Discovery(error)
    }
}
