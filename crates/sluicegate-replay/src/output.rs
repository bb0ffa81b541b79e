//! The forms of a report: a table, JSON, a page and pictures.

use std::io::{self, Write};

use crate::page::Page;
use crate::plot;
use crate::report::Report;
use crate::table::Table;

impl Report {
    /// Writes the report as a table for people.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn write_table(&self, mut output: impl Write) -> io::Result<()> {
        write!(output, "{}", Table(self))
    }

    /// Writes the report as one line of JSON.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn write_json(&self, mut output: impl Write) -> io::Result<()> {
        let json = serde_json::to_string(self).map_err(io::Error::other)?;
        writeln!(output, "{json}")
    }

    /// Writes the report as a page with plots, in one self-contained file.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn write_html(&self, mut output: impl Write) -> io::Result<()> {
        Page::new(self).write(&mut output)
    }

    /// Returns the charts of the page as separate SVG pictures.
    ///
    /// If there are several subjects, the first chart compares them, one below the other. Then
    /// comes a chart of each subject. A log without requests has no charts.
    #[must_use]
    pub fn charts(&self) -> Vec<String> {
        let Some(offered) = &self.timeline else { return Vec::new() };
        let subjects: Vec<_> = self.subjects().collect();
        let comparison = (subjects.len() > 1).then(|| plot::comparison(&subjects, offered));
        let singles = subjects.iter().map(|subject| plot::single(subject, offered));
        comparison.into_iter().chain(singles).map(|chart| chart.still().to_string()).collect()
    }
}
