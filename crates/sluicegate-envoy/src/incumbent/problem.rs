//! Problems in rate limit files, with their positions.

use std::error::Error;
use std::fmt;

use sluicegate_core::printable;

use super::position::{Position, Span};
use super::source::{Flaw, Source};

/// All problems in a set of files, at least one, in the order of the files.
///
/// Prints one problem after the other, each like [`Problem`]. `{:#}` prints all on one line, for logs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoadErrors(Vec<Problem>);

impl LoadErrors {
    /// Returns the problems.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(if f.alternate() { "; " } else { "\n" })?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for LoadErrors {}

/// A problem in a rate limit file, or a warning about it.
///
/// Prints as `FILE:LINE:COLUMN: MESSAGE`, or as `FILE: MESSAGE` if it has no position. Two more
/// lines have an excerpt, with carets under the value; `{:#}` leaves them out. Control characters
/// print as escapes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    file: String,
    position: Option<Position>,
    message: String,
    excerpt: Option<String>,
}

impl Problem {
    /// Returns the name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the position; `None` if the problem is about the whole file, or the rules aren't from a file.
    #[must_use]
    pub const fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns the value and what to change, on one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the written line, and carets under the value on a second one.
    #[must_use]
    pub fn excerpt(&self) -> Option<&str> {
        self.excerpt.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, position, message, excerpt } = self;
        match position {
            Some(Position { line, column }) => write!(f, "{file}:{line}:{column}: {message}")?,
            None => write!(f, "{file}: {message}")?,
        }
        if f.alternate() {
            return Ok(());
        }
        for line in excerpt.iter().flat_map(|excerpt| excerpt.lines()) {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// Collects the problems of a set of files.
#[derive(Debug, Default)]
pub(crate) struct Report {
    problems: Vec<Problem>,
    left_out: usize,
}

impl Report {
    /// Number of problems that are kept at most, so that a file with very many takes bounded memory.
    const MOST: usize = 100;

    /// Adds a problem of a file.
    pub(crate) fn add(&mut self, source: &Source, span: Option<Span>, message: &str) {
        self.keep(|| Problem {
            file: printable(&source.name),
            position: span.map(|span| span.start),
            message: printable(message),
            excerpt: span.and_then(|span| source.excerpt(span)),
        });
    }

    /// Adds a problem that was found before there was a report.
    pub(crate) fn add_flaw(&mut self, source: &Source, flaw: &Flaw) {
        self.add(source, flaw.span, &flaw.message);
    }

    /// Adds a problem of rules that aren't from a file.
    pub(crate) fn add_unplaced(&mut self, origin: &str, message: &str) {
        self.keep(|| Problem {
            file: printable(origin),
            position: None,
            message: printable(message),
            excerpt: None,
        });
    }

    /// Adds the problems of another report.
    pub(crate) fn append(&mut self, other: Self) {
        self.left_out += other.left_out;
        for problem in other.problems {
            self.keep(|| problem);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns the problems; the last one counts those that weren't kept.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        if let (1.., Some(last)) = (self.left_out, self.problems.last()) {
            let message = format!("{} more problems are not listed", self.left_out);
            let file = last.file.clone();
            self.problems.push(Problem { file, position: None, message, excerpt: None });
        }
        self.problems
    }

    /// Returns `value` if nothing was added.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, LoadErrors> {
        if self.is_empty() { Ok(value) } else { Err(LoadErrors(self.into_problems())) }
    }

    fn keep(&mut self, problem: impl FnOnce() -> Problem) {
        if self.problems.len() < Self::MOST {
            self.problems.push(problem());
        } else {
            self.left_out += 1;
        }
    }
}

/// Returns the beginning of a value, enough to recognize it.
pub(crate) fn beginning(text: &str) -> String {
    cut(text, 40)
}

/// Returns the first `most` characters of a text, with an ellipsis if there are more.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or(text).chars().chain(['…']).collect(),
        None => text.to_owned(),
    }
}
