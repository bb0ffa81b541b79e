//! The recording under which the guide shows every policy, and its plots.
//!
//! The example `policy_plots` compiles this file too, so it draws the plots that the tests expect.

use std::error::Error;
use std::fmt::Write as _;
use std::iter;

use sluicegate::MemoryStore;
use sluicegate_replay::{LogReader, Plan, Report};

/// The plots of the guide: file name and policy. Every rate is 2 per second, 120 per minute.
pub(crate) const PLOTS: [(&str, &str); 12] = [
    ("token_bucket", "token_bucket 2/s burst 120"),
    ("gcra", "gcra 2/s burst 10"),
    ("leaky_bucket", "leaky_bucket 2/s capacity 30"),
    ("shaper", "shaper 2/s queue 60"),
    ("smooth", "smooth 2/s burst 10s"),
    ("warmup", "warmup 2/s over 20s"),
    ("fixed_window", "fixed_window 120/min"),
    ("fixed_window-aligned", "fixed_window 120/min aligned"),
    ("fixed_window-calendar", "fixed_window 300/d calendar UTC"),
    ("sliding_window", "sliding_window 120/min slices 6"),
    ("sliding_counter", "sliding_counter 120/min"),
    ("sliding_log", "sliding_log 120/min"),
];

/// The file with all plots one below the other.
const SIDE_BY_SIDE: &str = "side_by_side";

/// 2026-01-31T23:57:16Z: a minute, a day and a month end during the recording.
const START: u64 = 1_769_903_836_000;
/// The start and end of each burst, in ms from the start. Midnight is in the middle of the second
/// burst.
const BURSTS: [(u64, u64); 2] = [(24_000, 36_000), (152_000, 176_000)];
const END: u64 = 240_000;

/// Returns the times of the requests in ms since the epoch, in order.
///
/// One request is made every second for four minutes, and ten more every second of a burst.
pub(crate) fn times() -> Vec<u64> {
    let mut times: Vec<_> = (0..END).step_by(1_000).collect();
    for (from, to) in BURSTS {
        // Between the steady requests.
        times.extend((from + 50..to).step_by(100));
    }
    times.sort_unstable();
    times.into_iter().map(|time| START + time).collect()
}

/// Returns the recording as JSON lines.
fn recording() -> String {
    times().into_iter().fold(String::new(), |mut lines, time| {
        let _ = writeln!(lines, "{{\"time\":{time},\"key\":\"alice\"}}");
        lines
    })
}

/// Plays the recording through each policy.
pub(crate) fn report() -> Result<Report, Box<dyn Error>> {
    let recording = LogReader::new("burst.jsonl").read(recording().as_bytes())?;
    let policies = PLOTS.into_iter().map(|(_, policy)| policy.parse());
    let plan = Plan::side_by_side(policies.collect::<Result<Vec<_>, _>>()?);
    Ok(plan.play_now(&MemoryStore::new(), &recording, &|_| ())?)
}

/// Returns the plots of the guide: file name and content.
pub(crate) fn pictures(report: &Report) -> impl Iterator<Item = (String, String)> {
    let names = iter::once(SIDE_BY_SIDE).chain(PLOTS.into_iter().map(|(name, _)| name));
    names.zip(report.charts()).map(|(name, chart)| (format!("{name}.svg"), chart + "\n"))
}
