//! Reports of the results: a table for people, lines for programs, a page for the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::goals::{Better, Chart, GOALS};
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
        "note": row.note,
    });
    if !row.why.is_empty() {
        object["why"] = json!(row.why);
    }
    object
}

/// Reads the goals with a value from what [`json_lines`] returned.
pub fn read_lines(text: &str) -> Result<Vec<Row>> {
    let rows = text.lines().map(|line| {
        let object: serde_json::Value = serde_json::from_str(line)?;
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let goal = GOALS.iter().find(|goal| goal.name == object["goal"]);
        // A goal that doesn't exist any more is left out, like one without a value.
        Ok(goal.zip(object["value"].as_f64()).map(|(goal, value)| Row {
            goal,
            value: Some(value),
            met: goal.is_met(value),
            note: text("note"),
            why: text("why"),
        }))
    });
    rows.filter_map(Result::transpose).collect()
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
            "\n## {}\n\n![{0}: each value next to its target](benchmarks/{})\n\n\
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
            let _ = writeln!(page, "\n`{}` is not met. {}.", row.goal.name, row.why);
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

Run them with `cargo xtask bench`. `--json` prints one object per goal and nothing else on standard output.
`--only SUBSTRING` selects goals by name, and `--quick` measures for a quarter of the time. A whole run writes this
page.

Absolute times belong to one machine. The ratios carry over better, but [not far](#how-far-the-ratios-move). Each ratio
is measured within one run, between two sides that took turns. The explanations of goals that aren't met are
measurements of the same run; [profiles](profiles.md) were measured manually.
";

const MOVED: &str = "
## How far the ratios move

Every whole run adds a line to `benchmarks/runs.jsonl`. This table has the lowest and the highest value of each goal,
including this run. Runs on one machine differ because of its other work, and because of the code of that day. A goal
has no value from runs that measured it in another way.

";

const METHOD: &str = "
## Method

**Pairs.** Subject and floor run in short segments that alternate, after a warm-up that isn't counted. Each pair of
neighbours gives a ratio, and the value is the median of the ratios. So other work of the machine slows down both sides
equally. Every segment checks its answers. A row fails if not all of its requests were admitted, or denied if it
measures denials.

**The embedded store.** Keys are strings of 24 bytes on the heap (`tenant:42:user:` and nine digits), drawn uniformly in
an order made beforehand. All states are warm. Threads are pinned, and times are processor time of the threads. Our side
makes a complete decision (limit, remaining, retry, reset) through the public call, with the time given.

The floor is a flat table of 32-byte slots, half full. It has the same keyed 128-bit SipHash-1-3 and the same state
(newest time and deficit), locked by one compare-and-swap. It answers yes or no, and never grows, evicts or sweeps.

The other side is the keyed limiter of governor 0.10 over DashMap, with its default clock. Our side then reads the same
clock for each decision, or once per batch of 64. There, and for a limiter or a gate, both sides first write each key
into a buffer, as a server does with a request.

Memory is measured in a separate process: the memory that filling the store adds, divided by the number of keys. The
larger of live heap and resident pages counts, and the worst of the sizes.

**On the server.** The client calls a real server on loopback, which is kept on one processor. It has four connections
with 32 requests in flight on each. 100,000 subjects are drawn uniformly, with keys of 30 bytes. The compared value is
the server's processor time, which includes reading requests and sending replies. The floor of the token bucket is a
script that answers 1. It calls `TIME`, `GET` and `SET PX`, with a value of the same length. Windows and logs get
requests at a steady pace over fewer keys, until they hold the number that the goal names. A token bucket over as many
keys at the same pace is their counterpart. The stored states are read to check these numbers.

**The client.** 8 tasks on a runtime of one thread share one connection. The server has the other processor and is never
saturated: otherwise the run fails. The other side makes the same script calls through `redis`' own multiplexed
connection, and reads only the verdict of the answers.

**Envoy's rate limit service.** The service's threads are on one processor, its client and Redis on the other. The client
has four connections with 16 calls in flight on each, and sends the fields that Envoy sends. It never sleeps, except next
to Redis, because waking it would cost the slower service more. No call is denied. The
compared value is the processor time of the whole service. The empty service is a tonic server with the same messages
and runtime, which answers the bytes of our first answer. All services have the same limits, in their own form.
`sluicegate serve` has a token bucket for each key of a descriptor, and the others a window of an hour. `sluicegate envoy` and
envoyproxy/ratelimit have the same file and variables, and the same Redis.

**Envoy's quotas.** A hundred streams report as Envoy 1.40 does: each bucket once when it is new, then all of them every
5 s. The streams' reports are spread over the 5 s. A limit of 10,000 requests/s for each of 100 tenants is shared. The
demand of a tenant is 0.5 to 2 times its limit. An Envoy has between a fifth of it and a hundredth of that, and it varies
by up to a tenth from report to report. The value is the processor time of the whole service in 40 s, divided by this
time. The row fails if fewer than 95 % of the buckets have a share at the end, or if there are fewer assignments than 90 %
of the reports.

**The service over HTTP.** The service's threads are on one processor, its client on the other. The client has 64
connections with one request in flight on each, and reads status, fields and body of each answer. It never sleeps,
except next to Redis. The compared value is the processor time of the whole service, with what it does between its
segments. The empty server is an axum handler that reads the body and answers the fields and the body of our first
answer. throttlecrab gets the numbers of the limit in each request. Limitador has a window of an hour, and its answers
have no numbers.

**Forward-auth.** nginx and the service that it asks share one processor, its client has the other. The client is that of
the checks over HTTP. nginx has the configuration of [its page](proxies.md#nginx), serves a file, and keeps its connections
open. On the other side it asks a hyper server that answers 204 to everything. The compared value is the processor time
of nginx and its service together.

**Operators' tools.** The decision log and the recorder are measured like a check over HTTP, on two services that
differ in this setting alone. The bench starts both nine times, because each process has another layout of its memory.
The time of all threads counts, that of the writer too, and the row fails if the log leaves a line out. The stream has
one reader, next to a client that sends a pipeline of 1,000 `SG.CHECK` every 10 ms, with 10,000 limits in turn.
Segments of 4 s with and without the reader alternate. An override is set at each process of a fleet in turn. A delay
is the time from its answer until a peek at another process has its numbers. Each of the 8 processes decides 200 other
requests a second meanwhile, and a ninth one is stopped.

**Redis' protocol.** The server is on one processor, redis-benchmark on the other, with 50 connections and 100,000 keys
drawn uniformly. All keys exist. A command is repeated 60,000 times alone, or 400,000 times in longer pipelines. The
compared value is the processor time of the whole server. Redis reads keys of the same length with GET, and writes no
files. throttlecrab speaks Redis' protocol too, and redis-cell is a module of the same Redis server.

**The middleware.** wrk keeps 64 connections busy with requests to an axum handler that answers `hello`, on a separate
thread.

**Replay.** `sluicegate replay` and `bench/replay_baseline.py` read the same log, `data/apache_access.log` fifty times
over, and must find the same numbers. The script uses a regular expression, `strptime` and a deque per host. The JSON
log has the fields of the same lines under the names of nginx, and a duration.
";
