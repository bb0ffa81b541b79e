//! What is wrong with a config file, and where.

use std::error::Error;
use std::fmt;

use sluicegate_core::printable;

use super::FileName;

/// Everything that is wrong with a config file, at least one problem, in the order of the file.
///
/// Prints one problem after the other, each as [`ConfigProblem`] does.
#[derive(Clone, Debug, Eq, PartialEq)]
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

/// One thing that is wrong with a config file, or that can hardly be meant.
///
/// Prints as `FILE:LINE:COLUMN: MESSAGE`, a problem of a policy spec with the spec and carets on
/// two further lines; a problem of the file as a whole as `FILE: MESSAGE`. Control characters
/// are printed as escapes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigProblem {
    file: FileName,
    place: Option<Place>,
    message: String,
    snippet: Option<String>,
}

impl ConfigProblem {
    /// The line, counted from 1; `None` when the problem is the file as a whole.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.place.map(|place| place.line)
    }

    /// The column in characters, counted from 1; `None` when the problem is the file as a whole.
    #[must_use]
    pub fn column(&self) -> Option<u64> {
        self.place.map(|place| place.column)
    }

    /// What is wrong and what to change, on one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// For a policy spec that can't be read: the spec, and carets below on a second line.
    #[must_use]
    pub fn snippet(&self) -> Option<&str> {
        self.snippet.as_deref()
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, message, snippet } = self;
        match place {
            Some(Place { line, column }) => write!(f, "{file}:{line}:{column}: {message}")?,
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
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    /// The place of the character after `text`, which begins the file.
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

    pub(super) fn report(&mut self, place: Place, message: &str) {
        self.problems.push(self.problem(Some(place), message, None));
    }

    /// A problem shown with a part of the file, which is printable already.
    pub(super) fn report_with(&mut self, place: Place, message: &str, snippet: &str) {
        self.problems.push(self.problem(Some(place), message, Some(snippet.to_owned())));
    }

    /// The one problem that keeps the file from being read at all.
    pub(super) fn only(&self, place: Option<Place>, message: &str) -> ConfigErrors {
        ConfigErrors(vec![self.problem(place, message, None)])
    }

    /// A collector of the same file's warnings.
    pub(super) fn empty(&self) -> Self {
        Self { file: self.file.clone(), problems: Vec::new() }
    }

    pub(super) fn knows(&self, place: Place) -> bool {
        self.problems.iter().any(|problem| problem.place == Some(place))
    }

    /// What was reported, in the order of the file.
    pub(super) fn into_problems(mut self) -> Vec<ConfigProblem> {
        self.problems.sort_by_key(|problem| problem.place);
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
        place: Option<Place>,
        message: &str,
        snippet: Option<String>,
    ) -> ConfigProblem {
        ConfigProblem { file: self.file.clone(), place, message: printable(message), snippet }
    }
}

/// The beginning of a value, enough to find it again.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => text.get(..end).unwrap_or(text).chars().chain(['…']).collect(),
        None => text.to_owned(),
    }
}
