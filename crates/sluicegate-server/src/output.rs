//! Output to the terminal.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use sluicegate::Error;
use sluicegate::config::StoreUrl;

use crate::signals::StopSignal;
use sluicegate_client::json::Answer;

/// The result of a command, as its exit status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub(crate) enum Exit {
    /// 0: done, or allowed.
    Allowed,
    /// 1: denied; for `conformance`, a case failed.
    Denied,
    /// 3: the store failed.
    StoreFailure,
    /// 2: the user's input is invalid.
    Usage,
    /// 130 or 143: a signal ended the command, as a shell reports it.
    Signal(StopSignal),
}

impl Exit {
    /// Returns the exit status for an answer.
    pub(crate) const fn of(answer: &Answer<'_>) -> Self {
        if answer.allowed { Self::Allowed } else { Self::Denied }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Allowed => 0,
            Exit::Denied => 1,
            Exit::Usage => 2,
            Exit::StoreFailure => 3,
            Exit::Signal(StopSignal::Interrupt) => 130,
            Exit::Signal(StopSignal::Terminate) => 143,
        })
    }
}

/// The reason that a command fails: a message that says what to change, and the exit status.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    message: String,
    exit: Exit,
}

impl Failure {
    /// Returns a failure because the user's input is invalid.
    #[must_use]
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { message: message.to_string(), exit: Exit::Usage }
    }

    /// Returns a failure for several problems in the user's input. Each is reported separately.
    #[must_use]
    pub(crate) fn usages(problems: &[impl Display]) -> Self {
        let messages: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Self::usage(messages.join(&Self::NEXT.to_string()))
    }

    /// Returns a failure because the request can't be fulfilled, regardless of the input.
    #[must_use]
    pub(crate) fn denied(message: impl Display) -> Self {
        Self { message: message.to_string(), exit: Exit::Denied }
    }

    /// Returns a failure of the store.
    #[must_use]
    pub(crate) fn store(message: impl Display) -> Self {
        Self { message: message.to_string(), exit: Exit::StoreFailure }
    }

    /// Returns a failure of the store at `url`, for a command that charges nothing.
    #[must_use]
    pub(crate) fn of_store(url: &StoreUrl, error: &Error) -> Self {
        Self::store(format_args!("store {url}: {}", without_charge(error)))
    }

    /// Returns the message, for a failure that isn't the end.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Reports the failure on standard error.
    #[must_use]
    pub(crate) fn report(&self) -> Exit {
        for message in self.message.split(Self::NEXT) {
            complain(format_args!("error: {message}"));
        }
        self.exit
    }

    /// The separator between several messages of one failure.
    const NEXT: char = '\u{1e}';
}

/// Returns the error's message without the note on charging, which is irrelevant in a replay.
pub(crate) fn without_charge(error: &Error) -> String {
    error.to_string().replace("; nothing was charged", "")
}

/// Formats a number with its noun; the plural adds an `s`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Prints one line to standard output. A closed output is not an error.
pub(crate) fn say(line: impl Display) {
    let _ = try_say(line);
}

/// Prints one line to standard output, for a command that ends when its output is closed.
///
/// # Errors
/// Returns an error if the output is closed, or can't be written.
pub(crate) fn try_say(line: impl Display) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Prints one line to standard error.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
