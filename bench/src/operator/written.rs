//! The processor time of a check whose decision is written or may be traced, compared with one whose decision isn't.

use std::path::Path;

use anyhow::{Result, ensure};

use super::call;
use crate::http::check::{Side, UNIT, many_pairs};
use crate::http::services::{ours_by, ours_with, root};
use crate::measure::{Effort, Measured, Pairs, Session};
use crate::program::{build, build_with};

/// Small differences need many pairs.
const PAIRS: usize = 61;
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
    let start = |program: &Path| ours_by(program, "memory:", |_| NOTHING.to_owned());
    let mut without = Side::of_ours(start(&without)?, true)?;
    let mut with = Side::of_ours(start(&build(&root())?)?, true)?;
    Ok(ratio(&many_pairs(effort.count(PAIRS), &mut without, &mut with)?))
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
    settings: impl FnOnce(&Path) -> String,
    check: impl FnOnce(&Side) -> Result<()>,
) -> Result<Measured> {
    let mut without = Side::of_ours(ours_with("memory:", |_| NOTHING.to_owned())?, true)?;
    let mut with = Side::of_ours(ours_with("memory:", settings)?, true)?;
    let pairs = many_pairs(effort.count(PAIRS), &mut without, &mut with)?;
    check(&with)?;
    Ok(ratio(&pairs))
}

fn ratio(pairs: &Pairs) -> Measured {
    let mut measured = pairs.ratio(UNIT);
    measured.note = format!("Without it {}", measured.note);
    measured
}
