//! Commands that can't be carried out.

use std::fmt;

use crate::number::shown;
use crate::output::{ErrorKind, Output};

/// The error of a command, in the words of the answer. The connection stays open.
///
/// ```
/// use sluicegate_resp::{Command, Output, Parser};
///
/// let mut parser = Parser::default();
/// let (arguments, _) = parser.next(b"FROB\n")?.unwrap();
/// let error = Command::parse(&arguments).unwrap_err();
/// let mut output = Output::default();
/// error.write(&mut output);
/// assert_eq!(output.bytes(), b"-ERR unknown command 'FROB'\r\n");
/// # Ok::<(), sluicegate_resp::ProtocolError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandError {
    kind: ErrorKind,
    message: String,
}

impl CommandError {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns the error of a limit that doesn't exist.
    ///
    /// ```
    /// let error = sluicegate_resp::CommandError::unknown_limit(b"nope");
    /// assert!(error.to_string().starts_with("there is no limit called `nope`"));
    /// ```
    #[cold]
    #[must_use]
    pub fn unknown_limit(name: &[u8]) -> Self {
        let message = format!(
            "there is no limit called `{}`: name a limit of the configuration",
            shown(name)
        );
        Self::new(ErrorKind::NoLimit, message)
    }

    #[cold]
    pub(crate) fn err(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Err, message)
    }

    /// Writes the answer.
    pub fn write(&self, output: &mut Output) {
        output.error(self.kind, &self.message);
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}
