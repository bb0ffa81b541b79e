//! Bytes that aren't a command.

use std::fmt;

/// The error of bytes that aren't a command. The connection has to be closed, because the next command can't be found.
///
/// ```
/// use sluicegate_resp::Parser;
///
/// let error = Parser::default().next(b"*1\r\n+PING\r\n").unwrap_err();
/// assert_eq!(error.to_string(), "Protocol error: expected '$', got '+'");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProtocolError(String);

impl ProtocolError {
    #[cold]
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

impl std::error::Error for ProtocolError {}
