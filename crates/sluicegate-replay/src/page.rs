//! A report as one self-contained page for browsers, without scripts.

use std::io::{self, Write};

use askama::Template;
use sluicegate_core::Span;

use crate::chart::{OverTime, moment};
use crate::counts::{Counts, DeniedKey, WorstMinute};
use crate::keys::shown;
use crate::numbers::{counted, grouped, length, percent};
use crate::plot::{self, summary};
use crate::report::Report;
use crate::subject::Subject;
use crate::suggest::Suggestions;
use crate::table::NONE;

/// A report as a page.
#[derive(Debug, Template)]
#[template(path = "replay/page.html")]
pub(crate) struct Page<'r> {
    report: &'r Report,
    log: String,
    answer: Vec<String>,
    lines: String,
    malformed: String,
    has_more_malformed: bool,
    /// Chart with the policies one below the other; `None` if there is only one.
    comparison: Option<OverTime>,
    sections: Vec<Section>,
    used: Vec<Use>,
    suggested: Vec<Suggested>,
    version: &'static str,
}

/// The results of one policy, or of a limit with several policies.
#[derive(Debug)]
struct Section {
    number: usize,
    heading: String,
    is_shadow: bool,
    requests: String,
    allowed: String,
    denied: String,
    percent: String,
    keys: String,
    keys_denied: String,
    /// Denied share, as a length.
    share: String,
    summary: String,
    worst: Option<Worst>,
    errors: Option<String>,
    plot: Option<OverTime>,
    hardest: Vec<Key>,
    /// Denied keys that aren't shown.
    more: Option<String>,
}

#[derive(Debug)]
struct Worst {
    minute: String,
    denied: String,
}

/// A key with its requests. Lengths are relative to the longest one shown.
#[derive(Debug)]
struct Key {
    text: String,
    offered: String,
    allowed: String,
    denied: String,
    allowed_length: String,
    denied_length: String,
    worst: Worst,
    needed: String,
}

/// The units that keys take within windows of one length.
#[derive(Debug)]
struct Use {
    per: &'static str,
    numbers: [(&'static str, String); 5],
}

#[derive(Debug)]
struct Suggested {
    spec: String,
    denied: String,
    percent: String,
    keys_denied: String,
    denied_most: String,
}

/// Maximum number of characters shown of a key, or of any other text from a user.
const KEY: usize = 80;
const TEXT: usize = 1_024;

impl<'r> Page<'r> {
    pub(crate) fn new(report: &'r Report) -> Self {
        let subjects: Vec<_> = report.subjects().collect();
        let comparison = report.timeline.as_ref().filter(|_| subjects.len() > 1);
        let section = |(index, subject)| Section::new(index + 1, subject, report);
        Self {
            report,
            log: shown(&report.log, TEXT),
            answer: report.answer(),
            lines: format!(
                "{}, {}, {}",
                counted(report.lines, "line"),
                counted(report.requests, "request"),
                counted(report.keys, "key"),
            ),
            malformed: counted(report.malformed, "malformed line"),
            has_more_malformed: report.malformed > report.malformed_lines.len() as u64,
            comparison: comparison.map(|offered| plot::comparison(&subjects, offered)),
            sections: subjects.iter().enumerate().map(section).collect(),
            used: report.suggest.iter().flat_map(used).collect(),
            suggested: report.suggest.iter().flat_map(|found| suggested(found, report)).collect(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Writes the page.
    pub(crate) fn write(&self, output: &mut impl Write) -> io::Result<()> {
        self.write_into(output)
    }
}

impl Section {
    fn new(number: usize, subject: &Subject<'_>, report: &Report) -> Self {
        let Subject { heading, is_shadow, counts } = subject;
        let rest = counts.keys_denied - counts.denied_most.len() as u64;
        Self {
            number,
            heading: shown(heading, TEXT),
            is_shadow: *is_shadow,
            requests: grouped(counts.requests),
            allowed: grouped(counts.allowed),
            denied: grouped(counts.denied),
            percent: percent(counts.denied, counts.requests),
            keys: grouped(counts.keys),
            keys_denied: grouped(counts.keys_denied),
            share: length(counts.denied, counts.requests),
            summary: summary(counts),
            worst: counts
                .worst_minute
                .as_ref()
                .map(|worst| Worst { minute: minute(worst), denied: grouped(worst.denied) }),
            errors: (counts.errors > 0).then(|| counted(counts.errors, "request")),
            plot: report.timeline.as_ref().map(|offered| plot::single(subject, offered)),
            hardest: hardest(counts),
            more: (rest > 0).then(|| counted(rest, "more key")),
        }
    }
}

fn hardest(counts: &Counts) -> Vec<Key> {
    let longest = counts.denied_most.iter().map(|key| key.requests).max().unwrap_or(0);
    let key = |key: &DeniedKey| Key {
        text: shown(&key.key, KEY),
        offered: grouped(key.requests),
        allowed: grouped(key.allowed),
        denied: grouped(key.denied),
        allowed_length: length(key.allowed, longest),
        denied_length: length(key.denied, longest),
        worst: Worst {
            minute: minute(&key.worst_minute),
            denied: grouped(key.worst_minute.denied),
        },
        needed: key.needed.clone().unwrap_or_else(|| NONE.to_owned()),
    };
    counts.denied_most.iter().map(key).collect()
}

fn minute(worst: &WorstMinute) -> String {
    moment(worst.at.as_micros(), Span::MINUTE.as_micros())
}

fn used(suggestions: &Suggestions) -> impl Iterator<Item = Use> {
    suggestions.used.iter().map(|used| {
        let numbers = [
            ("p50", used.p50),
            ("p95", used.p95),
            ("p99", used.p99),
            ("max", used.max),
            ("windows", used.windows),
        ];
        Use { per: used.per, numbers: numbers.map(|(name, number)| (name, grouped(number))) }
    })
}

fn suggested(suggestions: &Suggestions, report: &Report) -> impl Iterator<Item = Suggested> {
    suggestions.limits.iter().map(|limit| Suggested {
        spec: limit.spec.clone(),
        denied: grouped(limit.denied),
        percent: percent(limit.denied, report.requests),
        keys_denied: grouped(limit.keys_denied),
        denied_most: limit
            .denied_most
            .as_ref()
            .map_or_else(|| "-".to_owned(), |key| shown(key, KEY)),
    })
}
