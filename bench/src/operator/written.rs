//! The processor time of a check whose decision is written or may be traced, compared with one whose decision isn't.

use std::path::Path;

use anyhow::{Result, ensure};

use super::call;
use crate::http::check::{Side, UNIT, add_pairs};
use crate::http::services::{ours_by, root};
use crate::measure::{Effort, Measured, Pairs, Session};
use crate::program::{build, build_with};
use crate::served::Served;

/// The number of starts of both services. The layout of a process's memory differs from start to start, and makes more of a
/// difference than what these goals allow.
const STARTS: usize = 9;
/// The pairs of a start.
const PAIRS: usize = 44;
/// Neither the log nor the recorder.
const NOTHING: &str = "recorder: {size: 0}";

/// Measures the goals of the decision log and of the recorder.
pub fn measure(session: &mut Session) {
    session.goal("decision-log", |effort| log(effort, "1"));
    session.goal("decision-log-1-percent", |effort| log(effort, "0.01"));
    session.goal("recorder", |effort| beside(effort, |_| String::new(), |_| Ok(())));
    session.goal("traces-off", traces);
}

/// Compares the service, which sends no traces unless a variable turns them on, to a build that can't send any.
fn traces(effort: Effort) -> Result<Measured> {
    let without = build_with(&root(), "envoy,resp")?;
    let with = build(&root())?;
    compare(effort, || quiet(&without), || quiet(&with), |_| Ok(()))
}

/// Compares a service with a decision log to one without it. The time of the thread that writes counts.
fn log(effort: Effort, sample: &str) -> Result<Measured> {
    let settings = |folder: &Path| {
        let file = folder.join("decisions");
        format!("{NOTHING}\ndecision_log: {{file: \"{}\", sample: {sample}}}", file.display())
    };
    beside(effort, settings, |with| {
        let metrics = call(with.served.address, "GET", "/metrics", "")?;
        let mut left_out = metrics.lines().filter(|line| {
            let is_counter = line.starts_with("sluicegate_decision_log_left_out_total{");
            is_counter && !line.ends_with(" 0")
        });
        ensure!(left_out.next().is_none(), "the log left lines out:\n{metrics}");
        Ok(())
    })
}

/// Compares a service with these settings to one that writes nothing, and checks the former at the end.
fn beside(
    effort: Effort,
    settings: impl Fn(&Path) -> String,
    check: impl Fn(&Side) -> Result<()>,
) -> Result<Measured> {
    let program = build(&root())?;
    compare(effort, || quiet(&program), || ours_by(&program, "memory:", &settings), check)
}

/// Starts a service that writes nothing.
fn quiet(program: &Path) -> Result<Served> {
    ours_by(program, "memory:", |_| NOTHING.to_owned())
}

/// Compares two services in several starts, and checks the second one at the end of each.
fn compare(
    effort: Effort,
    without: impl Fn() -> Result<Served>,
    with: impl Fn() -> Result<Served>,
    check: impl Fn(&Side) -> Result<()>,
) -> Result<Measured> {
    let mut pairs = Pairs::default();
    for _ in 0..effort.count(STARTS) {
        let mut without = Side::of_ours(without()?, true)?;
        let mut with = Side::of_ours(with()?, true)?;
        add_pairs(&mut pairs, PAIRS, &mut without, &mut with)?;
        check(&with)?;
    }
    Ok(pairs.ratio_to("Without it", UNIT))
}
