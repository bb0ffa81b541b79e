//! A report as a table for people.

use std::fmt::{self, Write};

use super::keys::shown;
use super::report::{Counts, Report};

/// A report as a table.
#[derive(Debug)]
pub(super) struct Table<'r>(pub(super) &'r Report);

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
        write!(f, "{}: ", shown(&report.log, usize::MAX))?;
        count(f, report.lines, "line")?;
        f.write_str(", ")?;
        count(f, report.requests, "request")?;
        f.write_str(", ")?;
        count(f, report.keys, "key")?;
        writeln!(f, " ({key})")?;
        if let (Some(first), Some(last)) = (&report.first, &report.last) {
            writeln!(f, "from {first} to {last}")?;
        }
        self.malformed(f)?;
        let subjects: Vec<_> = self.subjects().collect();
        f.write_char('\n')?;
        columns(f, &subjects)?;
        for (subject, counts) in &subjects {
            hardest(f, subject, counts)?;
        }
        Ok(())
    }
}

impl Table<'_> {
    /// What has counts, with what to call it.
    fn subjects(&self) -> impl Iterator<Item = (String, &Counts)> {
        let policies = self.0.policies.iter().map(|policy| (policy.policy.clone(), &policy.counts));
        let limit =
            self.0.limit.iter().map(|limit| (format!("limit {}", limit.name), &limit.counts));
        policies.chain(limit)
    }

    fn malformed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.malformed == 0 {
            return Ok(());
        }
        count(f, self.0.malformed, "malformed line")?;
        f.write_str(" left out\n")?;
        for line in &self.0.malformed_lines {
            writeln!(f, "  line {}: {}", line.line, line.why)?;
        }
        if self.0.malformed > self.0.malformed_lines.len() as u64 {
            f.write_str("  …\n")?;
        }
        Ok(())
    }
}

fn columns(f: &mut fmt::Formatter<'_>, subjects: &[(String, &Counts)]) -> fmt::Result {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    for (subject, counts) in subjects {
        rows.push([
            subject.clone(),
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
fn hardest(f: &mut fmt::Formatter<'_>, subject: &str, counts: &Counts) -> fmt::Result {
    let Some(worst) = &counts.worst_minute else {
        return Ok(());
    };
    writeln!(f, "\ndenied most by {subject}")?;
    let most = || counts.denied_most.iter().take(KEYS_SHOWN);
    let widest = most().map(|key| grouped(key.denied).len()).max().unwrap_or(0);
    for key in most() {
        let (denied, requests) = (grouped(key.denied), grouped(key.requests));
        writeln!(f, "  {denied:>widest$} of {requests}  {}", shown(&key.key, WIDTH))?;
    }
    if counts.keys_denied > KEYS_SHOWN as u64 {
        f.write_str("  … ")?;
        count(f, counts.keys_denied - KEYS_SHOWN as u64, "more key")?;
        f.write_char('\n')?;
    }
    writeln!(f, "  worst minute: {}, {} denied", worst.time, grouped(worst.denied))?;
    if counts.beyond > 0 {
        writeln!(f, "  {} of them cost more than its state can hold", grouped(counts.beyond))?;
    }
    Ok(())
}

fn count(f: &mut fmt::Formatter<'_>, number: u64, noun: &str) -> fmt::Result {
    write!(f, "{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number with a comma between each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A share in percent with one decimal. Only none at all is 0.0, and only the whole is 100.0.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    match (part * 2_000 + whole) / (whole * 2) {
        0 if part > 0 => "<0.1".to_owned(),
        1_000 if part < whole => ">99.9".to_owned(),
        tenths => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups_of_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_share_rounds_but_never_to_none_or_all() {
        for (part, whole, text) in [
            (0, 0, "-"),
            (0, 3, "0.0"),
            (1, 3, "33.3"),
            (2, 3, "66.7"),
            (3, 3, "100.0"),
            (1, 1_000_000, "<0.1"),
            (999_999, 1_000_000, ">99.9"),
            (u64::MAX, u64::MAX, "100.0"),
        ] {
            assert_eq!(percent(part, whole), text, "{part} of {whole}");
        }
    }
}
