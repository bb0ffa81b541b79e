//! A report as a table for people.

use std::fmt::{self, Write};

use crate::counts::Counts;
use crate::keys::shown;
use crate::numbers::{counted, grouped, percent};
use crate::report::Report;
use crate::subject::Subject;
use crate::suggest::Suggestions;

/// A report as a table.
#[derive(Debug)]
pub(crate) struct Table<'r>(pub(crate) &'r Report);

/// The side on which the text of a column is aligned.
enum Side {
    Left,
    Right,
}
use Side::{Left, Right};

/// Text for a key whose requests no number would all admit.
pub(crate) const NONE: &str = "no number";

/// Maximum number of characters shown of a key.
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
        self.errors(f)?;
        writeln!(f, "\n{}", report.answer().join("\n"))?;
        let subjects: Vec<_> = report.subjects().collect();
        if !subjects.is_empty() {
            f.write_char('\n')?;
            columns(f, &subjects)?;
        }
        for subject in &subjects {
            hardest(f, &subject.heading, subject.counts)?;
        }
        match &report.suggest {
            Some(suggestions) => suggested(f, suggestions, report),
            None => Ok(()),
        }
    }
}

impl Table<'_> {
    fn errors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Subject { heading, counts, .. } in
            self.0.subjects().filter(|subject| subject.errors() > 0)
        {
            let requests = counted(counts.errors, "request");
            writeln!(f, "{requests} can't be decided by {heading}, neither allowed nor denied")?;
        }
        for message in &self.0.errors {
            writeln!(f, "  for example: {}", shown(message, usize::MAX))?;
        }
        Ok(())
    }

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
    aligned(f, "", &[Left, Right, Right, Right, Right, Right, Right], &rows)
}

/// Writes the keys and the minute with the most denials.
fn hardest(f: &mut fmt::Formatter<'_>, heading: &str, counts: &Counts) -> fmt::Result {
    let Some(worst) = &counts.worst_minute else {
        return Ok(());
    };
    writeln!(f, "\ndenied by {heading}")?;
    writeln!(f, "  worst minute: {}, {} denied", worst.time, grouped(worst.denied))?;
    if counts.denied_most.is_empty() {
        return Ok(());
    }
    let headings = ["key", "denied", "requests", "worst minute", "denied in it", "none denied by"];
    let mut rows = vec![headings.map(str::to_owned)];
    for key in &counts.denied_most {
        rows.push([
            shown(&key.key, WIDTH),
            grouped(key.denied),
            grouped(key.requests),
            key.worst_minute.time.clone(),
            grouped(key.worst_minute.denied),
            key.needed.clone().unwrap_or_else(|| NONE.to_owned()),
        ]);
    }
    aligned(f, "  ", &[Left, Right, Right, Left, Right, Left], &rows)?;
    let more = counts.keys_denied - counts.denied_most.len() as u64;
    if more > 0 { writeln!(f, "  … {}", counted(more, "more key")) } else { Ok(()) }
}

fn suggested(
    f: &mut fmt::Formatter<'_>,
    suggestions: &Suggestions,
    report: &Report,
) -> fmt::Result {
    f.write_str(
        "\nunits that one key takes within a clock second, minute or hour with requests\n",
    )?;
    let mut rows = vec![["per", "p50", "p95", "p99", "max", "windows"].map(str::to_owned)];
    for used in &suggestions.used {
        let numbers = [used.p50, used.p95, used.p99, used.max, used.windows].map(grouped);
        let [p50, p95, p99, max, windows] = numbers;
        rows.push([used.per.to_owned(), p50, p95, p99, max, windows]);
    }
    aligned(f, "  ", &[Left, Right, Right, Right, Right, Right], &rows)?;
    writeln!(f, "\nsmallest limits that deny at most {}", suggestions.deny_at_most)?;
    let headings = ["limit", "denied", "denied %", "keys denied", "denied most"];
    let mut rows = vec![headings.map(str::to_owned)];
    for limit in &suggestions.limits {
        rows.push([
            limit.spec.clone(),
            grouped(limit.denied),
            percent(limit.denied, report.requests),
            grouped(limit.keys_denied),
            limit.denied_most.as_ref().map_or_else(|| "-".to_owned(), |key| shown(key, WIDTH)),
        ]);
    }
    aligned(f, "  ", &[Left, Right, Right, Right, Left], &rows)
}

/// Writes rows in aligned columns, without trailing spaces.
fn aligned<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    indent: &str,
    sides: &[Side; N],
    rows: &[[String; N]],
) -> fmt::Result {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in rows {
        let mut line = indent.to_owned();
        for ((cell, width), side) in row.iter().zip(widths).zip(sides) {
            match side {
                Left => write!(line, "{cell:<width$}  ")?,
                Right => write!(line, "{cell:>width$}  ")?,
            }
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
