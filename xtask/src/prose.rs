//! Plain English: the patterns that make texts hard to read are counted, and their number only falls.
//!
//! [`check`] reads every text of the workspace and compares the findings of each file with the list
//! `xtask/prose.txt`. [`update`] lowers the list. [`show`] prints the findings of some files.

mod category;
mod counts;
mod files;
mod markdown;
mod openings;
mod passage;
mod patterns;
mod phrases;
mod rust_lines;
mod rust_texts;
mod scopes;
mod scripts;
mod words;

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::run::say;
use crate::servers::workspace_root;
use category::Category;
use counts::Counts;
use patterns::{Finder, Finding};

/// The committed list of counts.
const LIST: &str = "xtask/prose.txt";

/// Compares the findings of each file with the list.
///
/// # Errors
/// Returns an error if a file has more or fewer findings than listed.
pub(crate) fn check() -> Result<()> {
    compare(&listed()?, &findings()?)
}

/// Lowers the list to the findings of each file, and checks the files against it.
///
/// # Errors
/// Returns an error if a file has more findings than listed: the list never rises.
pub(crate) fn update() -> Result<()> {
    let found = findings()?;
    let lower = listed()?.lower(&counts(&found));
    fs::write(workspace_root().join(LIST), lower.text()).context(LIST)?;
    compare(&lower, &found)
}

/// Prints the findings of the files whose paths start with one of `paths`.
///
/// # Errors
/// Returns an error if a file can't be read.
pub(crate) fn show(paths: &[String]) -> Result<()> {
    let found = findings()?;
    for (file, findings) in &found {
        if paths.iter().any(|path| file.starts_with(path)) {
            findings.iter().for_each(|finding| say(&line(file, finding)));
        }
    }
    Ok(())
}

/// The findings of a file, sorted by line.
type FileFindings = (String, Vec<Finding>);

fn findings() -> Result<Vec<FileFindings>> {
    let finder = Finder::new();
    let texts = files::texts(&workspace_root())?.into_iter();
    let findings = texts.map(|texts| {
        let mut found: Vec<Finding> =
            texts.passages.iter().flat_map(|passage| finder.find(passage)).collect();
        found.sort_by_key(|finding| finding.line);
        (texts.file, found)
    });
    Ok(findings.collect())
}

fn listed() -> Result<Counts> {
    let text = fs::read_to_string(workspace_root().join(LIST)).context(LIST)?;
    Counts::parse(&text).context(LIST)
}

fn counts(found: &[FileFindings]) -> Counts {
    let mut counts = Counts::default();
    for (file, findings) in found {
        for finding in findings {
            counts.add(file, finding.category, 1);
        }
    }
    counts
}

fn compare(listed: &Counts, found: &[FileFindings]) -> Result<()> {
    let counts = counts(found);
    for category in Category::ALL {
        say(&format!("{:>7} {}", counts.total(category), category.heading()));
    }
    let risen = counts.above(listed);
    for (file, category, count, most) in &risen {
        say(&format!("{file}: {count} findings in {}, {most} listed", category.heading()));
        let findings = found.iter().filter(|(found, _)| found == file).flat_map(|(_, all)| all);
        for finding in findings.filter(|finding| finding.category == *category) {
            say(&line(file, finding));
        }
    }
    let fallen = listed.above(&counts);
    for (file, category, most, count) in &fallen {
        say(&format!("{file}: {count} findings in {}, {most} listed", category.heading()));
    }
    if !risen.is_empty() {
        bail!("counts above those in {LIST}: {}; write these texts in plain English", risen.len());
    }
    if !fallen.is_empty() {
        bail!("counts below those in {LIST}: {}; run `cargo xtask prose --update`", fallen.len());
    }
    Ok(())
}

fn line(file: &str, finding: &Finding) -> String {
    let Finding { line, pattern, text, advice, .. } = finding;
    format!("{file}:{line}: {pattern}: {text}: {advice}")
}
