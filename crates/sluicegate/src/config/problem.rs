//! Problems in a config file, and their positions.

use std::error::Error;
use std::fmt;

use sluicegate_core::printable;

use super::FileName;

/// All problems in a config file, at least one, in the order of the file.
///
/// Prints one problem after the other, each like [`ConfigProblem`].
#[derive(Clone, Eq, PartialEq)]
pub struct ConfigErrors(Vec<ConfigProblem>);

impl ConfigErrors {
    /// The problems.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl Error for ConfigErrors {}

/// A problem in a config file, or a warning about it.
///
/// Prints as `FILE:LINE:COLUMN: MESSAGE`, or as `FILE: MESSAGE` if it is about the whole file. A
/// problem with a policy spec has two more lines, with the spec and carets. Control characters
/// print as escapes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigProblem {
    file: FileName,
    position: Option<Position>,
    message: String,
    snippet: Option<String>,
}

impl ConfigProblem {
    /// The line, from 1; `None` if the problem is about the whole file.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.position.map(|position| position.line)
    }

    /// The column in characters, from 1; `None` if the problem is about the whole file.
    #[must_use]
    pub fn column(&self) -> Option<u64> {
        self.position.map(|position| position.column)
    }

    /// What is wrong and what to change, on one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// For a policy spec that can't be parsed: the spec, and carets on a second line.
    #[must_use]
    pub fn snippet(&self) -> Option<&str> {
        self.snippet.as_deref()
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, position, message, snippet } = self;
        match position {
            Some(Position { line, column }) => write!(f, "{file}:{line}:{column}: {message}")?,
            None => write!(f, "{file}: {message}")?,
        }
        for line in snippet.iter().flat_map(|snippet| snippet.lines()) {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// A line and a column, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Position {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Position {
    /// The position after `text`, with which the file begins.
    pub(super) fn after(text: &str) -> Self {
        let line = text.matches('\n').count() + 1;
        let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line: line as u64, column: column as u64 }
    }

    /// `characters` further to the right.
    pub(super) fn right(self, characters: usize) -> Self {
        Self { column: self.column + characters as u64, ..self }
    }
}

/// Collects the problems of one file.
#[derive(Debug)]
pub(super) struct Reporter {
    file: FileName,
    problems: Vec<ConfigProblem>,
}

impl Reporter {
    pub(super) fn new(file: &str) -> Self {
        Self { file: printable(file).into(), problems: Vec::new() }
    }

    pub(super) fn report(&mut self, position: Position, message: &str) {
        self.problems.push(self.problem(Some(position), message, None));
    }

    /// Reports a problem with an excerpt of the file, which is printable already.
    pub(super) fn report_with(&mut self, position: Position, message: &str, snippet: &str) {
        self.problems.push(self.problem(Some(position), message, Some(snippet.to_owned())));
    }

    /// The only problem, if the file can't be read at all.
    pub(super) fn only(&self, position: Option<Position>, message: &str) -> ConfigErrors {
        ConfigErrors(vec![self.problem(position, message, None)])
    }

    /// A collector for warnings about the same file.
    pub(super) fn empty(&self) -> Self {
        Self { file: self.file.clone(), problems: Vec::new() }
    }

    pub(super) fn knows(&self, position: Position) -> bool {
        self.problems.iter().any(|problem| problem.position == Some(position))
    }

    /// The reported problems, in the order of the file.
    pub(super) fn into_problems(mut self) -> Vec<ConfigProblem> {
        self.problems.sort_by_key(|problem| problem.position);
        self.problems
    }

    /// `value` if nothing was reported.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, ConfigErrors> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => Err(ConfigErrors(self.into_problems())),
        }
    }

    fn problem(
        &self,
        position: Option<Position>,
        message: &str,
        snippet: Option<String>,
    ) -> ConfigProblem {
        ConfigProblem { file: self.file.clone(), position, message: printable(message), snippet }
    }
}

/// The beginning of a value, enough to recognize it.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => text.get(..end).unwrap_or(text).chars().chain(['…']).collect(),
        None => text.to_owned(),
    }
}
