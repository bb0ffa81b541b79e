//! A report as a table for people.

use std::fmt::{self, Write};

use crate::counts::Counts;
use crate::keys::shown;
use crate::numbers::{counted, grouped, percent};
use crate::report::Report;
use crate::subject::Subject;

/// A report as a table.
#[derive(Debug)]
pub(crate) struct Table<'r>(pub(crate) &'r Report);

/// How many of the keys refused most are shown.
const KEYS_SHOWN: usize = 5;

/// The characters of a key that are shown.
const WIDTH: usize = 60;

const HEADINGS: [&str; 7] =
    ["policy", "requests", "allowed", "denied", "denied %", "keys", "keys denied"];

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let key = report.key.as_deref().unwrap_or("given by the lines");
        let log = shown(&report.log, usize::MAX);
        let lines = counted(report.lines, "line");
        let requests = counted(report.requests, "request");
        writeln!(f, "{log}: {lines}, {requests}, {} ({key})", counted(report.keys, "key"))?;
        if let (Some(first), Some(last)) = (&report.first, &report.last) {
            writeln!(f, "from {first} to {last}")?;
        }
        self.malformed(f)?;
        let subjects: Vec<_> = report.subjects().collect();
        f.write_char('\n')?;
        columns(f, &subjects)?;
        for subject in &subjects {
            hardest(f, &subject.heading, subject.counts)?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn malformed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.malformed == 0 {
            return Ok(());
        }
        writeln!(f, "{} left out", counted(self.0.malformed, "malformed line"))?;
        for line in &self.0.malformed_lines {
            writeln!(f, "  line {}: {}", line.line, line.why)?;
        }
        if self.0.malformed > self.0.malformed_lines.len() as u64 {
            f.write_str("  …\n")?;
        }
        Ok(())
    }
}

fn columns(f: &mut fmt::Formatter<'_>, subjects: &[Subject<'_>]) -> fmt::Result {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    for Subject { heading, counts, .. } in subjects {
        rows.push([
            heading.clone(),
            grouped(counts.requests),
            grouped(counts.allowed),
            grouped(counts.denied),
            percent(counts.denied, counts.requests),
            grouped(counts.keys),
            grouped(counts.keys_denied),
        ]);
    }
    let mut widths = [0; HEADINGS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for [policy, numbers @ ..] in &rows {
        write!(f, "{policy:<width$}", width = widths[0])?;
        for (cell, width) in numbers.iter().zip(&widths[1..]) {
            write!(f, "  {cell:>width$}")?;
        }
        f.write_char('\n')?;
    }
    Ok(())
}

/// The keys and the minute hit hardest.
fn hardest(f: &mut fmt::Formatter<'_>, heading: &str, counts: &Counts) -> fmt::Result {
    let Some(worst) = &counts.worst_minute else {
        return Ok(());
    };
    writeln!(f, "\ndenied most by {heading}")?;
    let most = || counts.denied_most.iter().take(KEYS_SHOWN);
    let widest = most().map(|key| grouped(key.denied).len()).max().unwrap_or(0);
    for key in most() {
        let (denied, requests) = (grouped(key.denied), grouped(key.requests));
        writeln!(f, "  {denied:>widest$} of {requests}  {}", shown(&key.key, WIDTH))?;
    }
    if counts.keys_denied > KEYS_SHOWN as u64 {
        writeln!(f, "  … {}", counted(counts.keys_denied - KEYS_SHOWN as u64, "more key"))?;
    }
    writeln!(f, "  worst minute: {}, {} denied", worst.time, grouped(worst.denied))?;
    if counts.beyond > 0 {
        writeln!(f, "  {} of them cost more than its state can hold", grouped(counts.beyond))?;
    }
    Ok(())
}
