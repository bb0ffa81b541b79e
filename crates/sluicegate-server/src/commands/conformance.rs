//! `conformance`: checks a store against cases with known answers.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};
use sluicegate::Config;
use sluicegate::store::StoreOptions;
use sluicegate_conformance::cases::{self, StoreTarget};

use crate::cli::ConformanceArgs;
use crate::output::{Exit, Failure, say};
use crate::setup::store_url;

/// Runs every case of a file and prints the failures.
///
/// # Errors
/// Returns an error if the file can't be read or the store failed.
pub(crate) async fn conformance(args: ConformanceArgs) -> Result<Exit, Failure> {
    let file = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::usage(format_args!("{file} can't be read: {error}")))?;
    let cases =
        cases::read(&text).map_err(|error| Failure::usage(format_args!("{file}: {error}")))?;
    if cases.is_empty() {
        return Err(Failure::usage(format_args!("{file} holds no case")));
    }
    let url = store_url(&args.store)?;
    let mut options = StoreOptions::from(&Config::default());
    options.deadline = args.deadline.into();
    let store = url.open(&options).map_err(Failure::usage)?;
    let mut target = StoreTarget::new(&store);
    let bar = progress(cases.len() as u64);
    let run = cases::run(&mut target, &cases, |_, failures| {
        if !args.json {
            bar.suspend(|| failures.iter().for_each(say));
        }
        bar.inc(1);
    });
    let report = match run.await {
        Ok(report) => report,
        Err(error) => return Err(Failure::of_store(&url, &error)),
    };
    bar.finish_and_clear();
    target.forget().await.map_err(|error| Failure::of_store(&url, &error))?;
    if args.json {
        say(serde_json::to_string(&report).map_err(Failure::usage)?);
    } else {
        say(&report);
    }
    Ok(if report.failed == 0 { Exit::Allowed } else { Exit::Denied })
}

/// Returns a progress bar, which is visible only on a terminal.
fn progress(cases: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(cases);
    match ProgressStyle::with_template("{wide_bar} {pos} of {len} cases {eta:>4}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
