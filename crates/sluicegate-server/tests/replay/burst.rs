//! The recording that the guide shows every policy under, and the plots made of it.
//!
//! `cargo xtask plots` compiles this very file too, so that it writes what the tests expect. It
//! therefore uses `std` alone.

use std::fmt::Write as _;

/// The plots of the guide: the name of each file, and the policy it shows. Every rate is 2 a
/// second, 120 a minute.
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

/// The file with all of them one below the other.
const SIDE_BY_SIDE: &str = "side_by_side";

/// 2026-01-31T23:57:16Z: a minute, a day and a month end while the recording lasts.
const START: u64 = 1_769_903_836_000;
/// The bursts: the ms from the start at which each begins and ends. Midnight is in the middle of
/// the second.
const BURSTS: [(u64, u64); 2] = [(24_000, 36_000), (152_000, 176_000)];
const END: u64 = 240_000;

/// When the requests are made, in ms since the epoch, in order: one every second for four
/// minutes, and ten more every second of a burst.
pub(crate) fn times() -> Vec<u64> {
    let mut times: Vec<_> = (0..END).step_by(1_000).collect();
    for (from, to) in BURSTS {
        // Between the steady ones.
        times.extend((from + 50..to).step_by(100));
    }
    times.sort_unstable();
    times.into_iter().map(|time| START + time).collect()
}

/// The recording as JSON lines.
pub(crate) fn recording() -> String {
    times().into_iter().fold(String::new(), |mut lines, time| {
        let _ = writeln!(lines, "{{\"time\":{time},\"key\":\"alice\"}}");
        lines
    })
}

/// The arguments of `sluicegate replay` that play what it reads through all of the policies.
pub(crate) fn arguments(format: &str) -> Vec<&str> {
    let mut arguments = vec!["--log", "-", "--format", format, "--policy"];
    arguments.extend(PLOTS.map(|(_, policy)| policy));
    arguments
}

/// The plots of the page that [`arguments`] ask for: the name of each file, and its content.
pub(crate) fn plots(page: &str) -> Option<Vec<(String, String)>> {
    let mut rest = page;
    let mut plots = Vec::new();
    for name in [SIDE_BY_SIDE].into_iter().chain(PLOTS.map(|(name, _)| name)) {
        let plot;
        (plot, rest) = first_plot(rest)?;
        plots.push((format!("{name}.svg"), still(plot)?));
    }
    Some(plots)
}

/// The first plot of a page, and what follows.
fn first_plot(page: &str) -> Option<(&str, &str)> {
    let start = page.find("<svg xmlns=")?;
    let plot = &page[start..];
    let mut depth = 0;
    for (index, _) in plot.match_indices("svg") {
        if plot[..index].ends_with("</") {
            depth -= 1;
        } else if plot[..index].ends_with('<') {
            depth += 1;
        }
        if depth == 0 {
            return Some(plot.split_at(index + "svg>".len()));
        }
    }
    None
}

/// A plot without what only a pointer shows, which a picture in a page never sees.
fn still(plot: &str) -> Option<String> {
    let Some((before, rest)) = plot.split_once("\n<g class=\"hover\">") else {
        return Some(format!("{plot}\n"));
    };
    let (_, after) = rest.split_once("\n</g>")?;
    Some(format!("{before}{after}\n"))
}
