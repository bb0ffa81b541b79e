//! The forms of a report: a table, JSON, a page, and pictures.

use std::io::{self, Write};

use crate::page::Page;
use crate::plot;
use crate::report::Report;
use crate::table::Table;

impl Report {
    /// Writes the report as a table for people.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write_table(&self, mut output: impl Write) -> io::Result<()> {
        write!(output, "{}", Table(self))
    }

    /// Writes the report as one line of JSON.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write_json(&self, mut output: impl Write) -> io::Result<()> {
        let json = serde_json::to_string(self).map_err(io::Error::other)?;
        writeln!(output, "{json}")
    }

    /// Writes the report as a page with plots: one file, which needs no other.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write_html(&self, mut output: impl Write) -> io::Result<()> {
        Page::new(self).write(&mut output)
    }

    /// The charts of the page as pictures of their own, in SVG: that of all subjects one below the
    /// other, if there are several, and then that of each. A log without requests has none.
    #[must_use]
    pub fn charts(&self) -> Vec<String> {
        let Some(offered) = &self.timeline else { return Vec::new() };
        let subjects: Vec<_> = self.subjects().collect();
        let comparison = (subjects.len() > 1).then(|| plot::comparison(&subjects, offered));
        let singles = subjects.iter().map(|subject| plot::single(subject, offered));
        comparison.into_iter().chain(singles).map(|chart| chart.still().to_string()).collect()
    }
}
