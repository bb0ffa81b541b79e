//! Reports of the results: a table for people, lines for programs, a page for the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::goals::{Better, Chart};
use crate::machine;
use crate::measure::{Row, digits};
use crate::plot;
use crate::runs::{self, Run};

/// Returns one JSON object per goal, each on a line.
pub fn json_lines(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("{}\n", json(row))).collect()
}

fn json(row: &Row) -> serde_json::Value {
    let mut object = json!({
        "goal": row.goal.name,
        "value": row.value.map(|value| (value * 1e4).round() / 1e4),
        "target": row.goal.target,
        "better": match row.goal.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
        },
        "met": row.met,
        "unit": row.goal.unit,
    });
    if !row.why.is_empty() {
        object["why"] = json!(row.why);
    }
    object
}

/// Formats a table that fits a terminal.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<30} {:>9} {:>10}  met  unit\n", "goal", "value", "target");
    for row in rows {
        let met = if row.met { "yes" } else { "NO" };
        let line = format!(
            "{:<30} {:>9} {:>10}  {met:<3}  {}",
            row.goal.name,
            shown(row),
            row.goal.bound(),
            row.goal.unit
        );
        // Writing to a string doesn't fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Writes `benchmarks.md` and its charts into the folder of the documentation.
pub fn write_page(docs: &Path, rows: &[Row]) -> Result<()> {
    let charts = docs.join("benchmarks");
    fs::create_dir_all(&charts).with_context(|| format!("can't make {}", charts.display()))?;
    for chart in Chart::ALL {
        write(&charts.join(chart.file()), &plot::bars(chart, rows).to_string())?;
    }
    let runs = runs::add(&charts.join("runs.jsonl"), Run::of(rows))?;
    write(&docs.join("benchmarks.md"), &page(rows, &runs))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}

fn page(rows: &[Row], runs: &[Run]) -> String {
    let met = rows.iter().filter(|row| row.met).count();
    let mut page = format!(
        "{INTRODUCTION}\nMeasured on: {}. {met} of {} goals met.\n",
        machine::description(),
        rows.len()
    );
    for chart in Chart::ALL {
        let _ = write!(
            page,
            "\n## {}\n\n![{0}: each value beside its target](benchmarks/{})\n\n\
             | goal | what | value | target | met | figures |\n| --- | --- | --- | --- | --- | --- |\n",
            chart.title(),
            chart.file()
        );
        for row in rows.iter().filter(|row| row.goal.chart == chart) {
            let _ = writeln!(
                page,
                "| `{}` | {} ({}) | {} | {} | {} | {} |",
                row.goal.name,
                row.goal.what,
                row.goal.unit,
                shown(row),
                row.goal.bound(),
                if row.met { "yes" } else { "**no**" },
                row.note
            );
        }
        for row in rows.iter().filter(|row| row.goal.chart == chart && !row.met) {
            let _ = writeln!(page, "\n`{}` is not met; {}.", row.goal.name, row.why);
        }
    }
    page.push_str(MOVED);
    page.push_str(&runs::table(runs));
    page.push_str(METHOD);
    page
}

fn shown(row: &Row) -> String {
    row.value.map_or("-".to_owned(), digits)
}

const INTRODUCTION: &str = "\
# Benchmarks

Run them with `cargo xtask bench`. `--json` prints one object per goal and nothing else on standard
output, `--only SUBSTRING` picks goals by name, `--quick` measures a quarter as long. A whole run
writes this page.

Absolute times belong to one machine. The ratios carry over better, but [not far](#how-far-the-ratios-move).
Each is taken inside one run, between two sides that took turns. What is said of a goal that is not
met was measured in the same run; [profiles](profiles.md) were taken by hand.
";

const MOVED: &str = "
## How far the ratios move

Every whole run adds a line to `benchmarks/runs.jsonl`. This is the least and the most that each
goal came to, this run among them. Runs on one machine differ by what else it did and by the state
of the code on that day; a goal has no figure from runs that measured it in another way.

";

const METHOD: &str = "
## Method

**Pairs.** Subject and floor run in short segments that alternate, after a warm-up that is not
counted. Each pair of neighbours gives a ratio; the value is the median of the ratios, so that what
else the machine does slows down both sides alike. Every segment checks its answers: a row whose
requests were not all admitted (or, of the denials, all denied) fails instead of looking fast.

**The embedded store.** Keys are strings of 24 bytes on the heap (`tenant:42:user:` and nine
digits), drawn uniformly in an order made beforehand; all states are warm. Threads are pinned, and
times are processor time of the threads. Our side makes a complete decision (limit, remaining,
retry, reset) through the public call; the time is given. The floor is a flat table of 32-byte
slots, half full, with the same keyed 128-bit SipHash-1-3 and the same state (newest time and
deficit), locked by one compare-and-swap; it answers yes or no, and never grows, evicts or sweeps.
governor 0.10 is its keyed limiter over DashMap with its default clock; ours then reads the same
clock for each decision, or, in batches of 64, once per batch. There, and where a limiter or a gate
is asked, both sides first write each key into a buffer, as a server does with what a request
brings. Memory is what filling the store adds in a process of its own, the larger of live heap and
resident pages, divided by the keys; the worst of the sizes counts.

**On the server.** A real server on loopback, kept on one processor, is asked over four
connections with 32 requests in flight on each; 100,000 subjects drawn uniformly, keys of 30
bytes. What is compared is the processor time of the server, which includes the reading of requests
and the sending of replies. The floor of the token bucket is a script that calls `TIME`, `GET` and
`SET PX` with a value of the same length and answers 1. Windows and logs are asked at a steady pace
over fewer keys, beside a token bucket over as many keys at the same pace, until they hold what the
goal says; the stored states are read to see that they do.

**The client.** 8 tasks on a runtime of one thread share one connection, the server has the other
processor and is never saturated: a run in which it was fails. The other side makes the same script
calls through `redis`' own multiplexed connection and reads nothing of the answers but whether they
admit.

**The middleware.** wrk keeps 64 connections busy with requests to an axum handler that answers
`hello`, on a thread of its own.

**Replay.** `sluicegate replay` and `bench/replay_baseline.py` (a regular expression, `strptime` and
a deque per host) read the same log, `data/apache_access.log` fifty times over, and must find the
same numbers. The JSON has the fields of the same lines under the names of nginx, and a duration.
";
