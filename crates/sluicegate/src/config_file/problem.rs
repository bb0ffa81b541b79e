//! Problems in a config file, and their positions.

use std::error::Error;
use std::fmt;

use sluicegate_core::printable;

use super::FileName;

/// All problems in a config file, at least one, in the order of the file.
///
/// Prints one problem after the other, each like [`ConfigProblem`]. `{:#}` prints all on one line, for logs.
#[derive(Clone, Eq, PartialEq)]
pub struct ConfigErrors(Vec<ConfigProblem>);

impl ConfigErrors {
    /// Returns the problems.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.0
    }
}

impl fmt::Display for ConfigErrors {
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

impl Error for ConfigErrors {}

/// A problem in a config file, or a warning about it.
///
/// Prints as `FILE:LINE:COLUMN: MESSAGE`, or as `FILE: MESSAGE` if it is about the whole file. A
/// problem with a policy spec has two more lines, with the spec and carets; `{:#}` leaves them out.
/// Control characters print as escapes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigProblem {
    file: FileName,
    position: Option<Position>,
    message: String,
    snippet: Option<String>,
}

impl ConfigProblem {
    /// Returns the line, from 1; `None` if the problem is about the whole file.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.position.map(|position| position.line)
    }

    /// Returns the column in characters, from 1; `None` if the problem is about the whole file.
    #[must_use]
    pub fn column(&self) -> Option<u64> {
        self.position.map(|position| position.column)
    }

    /// Returns what is wrong and what to change, on one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the spec and carets on a second line, for a policy spec that can't be parsed.
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
        if f.alternate() {
            return Ok(());
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
    /// Returns the position after `text`, which the file begins with.
    pub(super) fn after(text: &str) -> Self {
        let line = text.matches('\n').count() + 1;
        let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line: line as u64, column: column as u64 }
    }

    /// Returns the position `characters` further to the right.
    pub(super) fn right(self, characters: usize) -> Self {
        Self { column: self.column + characters as u64, ..self }
    }
}

/// A position in one of the files of a configuration. Small, because a file can have a million entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spot {
    /// The number of the file.
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Collects the problems of a file and of the files that it names.
#[derive(Debug)]
pub(super) struct Reporter {
    /// In the order in which they are read.
    files: Vec<FileName>,
    place: Place,
    /// Each with the number of its file.
    problems: Vec<(usize, ConfigProblem)>,
    /// The number of problems beyond those.
    left_out: u64,
}

/// The text that is checked: its file, and the number of lines before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    file: usize,
    lines_before: u64,
}

impl Reporter {
    /// Maximum number of problems that are kept, so that a file with very many wrong lines takes bounded memory.
    const MOST: usize = 1_000;

    pub(super) fn new(file: &str) -> Self {
        Self {
            files: vec![printable(file).into()],
            place: Place::default(),
            problems: Vec::new(),
            left_out: 0,
        }
    }

    pub(super) fn report(&mut self, position: Position, message: &str) {
        self.add(position, message, None);
    }

    /// Reports a problem with an excerpt of the file, which is printable already.
    pub(super) fn report_with(&mut self, position: Position, message: &str, snippet: &str) {
        self.add(position, message, Some(snippet));
    }

    /// Returns the only problem, if the file can't be read at all.
    pub(super) fn only(&self, position: Option<Position>, message: &str) -> ConfigErrors {
        ConfigErrors(vec![self.problem(0, position, message, None)])
    }

    /// Makes a collector for warnings about the same file.
    pub(super) fn empty(&self) -> Self {
        Self { files: self.files.clone(), problems: Vec::new(), ..*self }
    }

    pub(super) fn knows(&self, position: Position) -> bool {
        self.problems.iter().any(|(file, problem)| *file == 0 && problem.position == Some(position))
    }

    /// Returns the names of the files, in the order of their numbers.
    pub(super) fn files(&self) -> &[FileName] {
        &self.files
    }

    /// Returns a position in the text that is checked as one in its file.
    pub(super) fn spot(&self, position: Position) -> Spot {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Spot {
            file: u32::try_from(self.place.file).unwrap_or(u32::MAX),
            line: small(position.line + self.place.lines_before),
            column: small(position.column),
        }
    }

    /// Directs further reports to another file. Returns the place of earlier ones.
    pub(super) fn enter(&mut self, file: &str) -> Place {
        self.files.push(printable(file).into());
        self.go_to(Place { file: self.files.len() - 1, lines_before: 0 })
    }

    /// Directs further reports to text of the same file that follows this many lines.
    pub(super) const fn skip_lines(&mut self, lines: u64) {
        self.place.lines_before = lines;
    }

    /// Returns the place of further reports.
    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// Directs further reports to text at `place`. Returns the place of earlier ones.
    pub(super) const fn go_to(&mut self, place: Place) -> Place {
        std::mem::replace(&mut self.place, place)
    }

    /// Returns the reported problems, in the order of the files and their lines.
    pub(super) fn into_problems(mut self) -> Vec<ConfigProblem> {
        self.problems.sort_by_key(|(file, problem)| (*file, problem.position));
        if self.left_out > 0 {
            let message = format!("{} more like these are not listed", self.left_out);
            self.problems.push((0, self.problem(0, None, &message, None)));
        }
        self.problems.into_iter().map(|(_, problem)| problem).collect()
    }

    /// Returns `value` if nothing was reported.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, ConfigErrors> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => Err(ConfigErrors(self.into_problems())),
        }
    }

    fn add(&mut self, position: Position, message: &str, snippet: Option<&str>) {
        if self.problems.len() >= Self::MOST {
            self.left_out += 1;
            return;
        }
        let Place { file, lines_before } = self.place;
        let position = Position { line: position.line + lines_before, ..position };
        let problem = self.problem(file, Some(position), message, snippet);
        self.problems.push((file, problem));
    }

    fn problem(
        &self,
        file: usize,
        position: Option<Position>,
        message: &str,
        snippet: Option<&str>,
    ) -> ConfigProblem {
        let file = self.files.get(file).or(self.files.first()).cloned().unwrap_or_default();
        let snippet = snippet.map(str::to_owned);
        ConfigProblem { file, position, message: printable(message), snippet }
    }
}

/// Returns the beginning of a value, enough to recognize it.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => text.get(..end).unwrap_or(text).chars().chain(['…']).collect(),
        None => text.to_owned(),
    }
}
