//! Requests that can't be decided, in the words of the protocol.

use sluicegate::Error;
use sluicegate_resp::{CommandError, ErrorKind, Form, Output};

use crate::access::{Refusal, RefusalKind};
use crate::http::{ApiError, ApiErrorKind};

/// The reason that a request has no decision.
#[derive(Debug)]
pub(super) enum Problem {
    /// The arguments make no sense.
    Command(CommandError),
    /// The limit is unknown, or the store failed.
    Failed(ApiError),
    /// The caller lacks a right.
    Refused(Refusal),
    /// The configuration turns the command off.
    Off(Form),
}

impl Problem {
    /// Returns the problem of finding a limit. The words of HTTP don't say where to look.
    pub(super) fn of_limit(error: ApiError, limit: &str) -> Self {
        match error.kind() {
            ApiErrorKind::UnknownLimit => CommandError::unknown_limit(limit.as_bytes()).into(),
            _ => error.into(),
        }
    }

    /// Writes the error.
    pub(super) fn write(&self, output: &mut Output) {
        match self {
            Self::Command(error) => error.write(output),
            Self::Failed(error) => failed(error, output),
            Self::Refused(refusal) => refused(refusal, output),
            Self::Off(form) => output.error(
                ErrorKind::Err,
                format_args!(
                    "{} is turned off: set `resp: {{throttle: true}}` in the configuration, or name a limit by SG.CHECK",
                    form.limit().to_uppercase()
                ),
            ),
        }
    }
}

fn failed(error: &ApiError, output: &mut Output) {
    let kind = match error.kind() {
        ApiErrorKind::Forbidden => ErrorKind::NoPerm,
        ApiErrorKind::Unavailable => ErrorKind::Store,
        ApiErrorKind::UnknownLimit => ErrorKind::NoLimit,
        ApiErrorKind::Wrong => ErrorKind::Err,
    };
    output.error(kind, error.message());
}

fn refused(Refusal { kind, message }: &Refusal, output: &mut Output) {
    match kind {
        RefusalKind::Missing => {
            output.error(ErrorKind::NoAuth, format_args!("{message}: send AUTH TOKEN"));
        }
        RefusalKind::Wrong => output.error(ErrorKind::WrongPass, message),
        RefusalKind::Forbidden => output.error(ErrorKind::NoPerm, message),
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
