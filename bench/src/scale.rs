//! A simulated fleet: a thousand processes and a million keys, with the real layers and kernels in
//! virtual time.

mod fleet;
mod network;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use sluicegate::layers::LeaseOptions;
use sluicegate::layers::{DenyCache, Leases};
use sluicegate_replay::chart::{Bar, BarChart};

use fleet::{Fleet, Outcome, Plan};

/// The compared stacks of layers.
const STACKS: [&str; 3] = ["no layer", "deny cache", "deny cache and leases"];

/// Runs the simulation and writes its page and charts.
pub fn run(quick: bool) -> Result<()> {
    let millis = if quick { 200 } else { 3_000 };
    let plan = |processes, rate| Plan { processes, per_second: 1_000_000, millis, rate };
    let plans = [plan(1_000, 500), plan(1_000, 100_000), plan(20, 500), plan(20, 100_000)];
    let mut page = String::from(HEAD);
    let mut calls = Vec::new();
    let mut shares = Vec::new();
    for plan in plans {
        let Plan { processes, .. } = plan;
        let policy = plan.policy();
        let _ = write!(page, "\n## {processes} processes, `{policy}`\n\n{TABLE}");
        for stack in STACKS {
            eprintln!("{processes} processes, {stack}");
            let outcome = simulate(plan, stack);
            let _ = writeln!(page, "{}", row(stack, &outcome));
            let name = format!("{processes} processes, {}/s, {stack}", plan.rate);
            calls.push(bar(&name, outcome.calls as f64 / outcome.requests as f64));
            if stack == STACKS[2] {
                shares.extend(outcome.shares.iter().map(|share| {
                    let name =
                        format!("{processes} processes, {}/s, key {}", plan.rate, share.rank);
                    bar(&name, share.fairness)
                }));
            }
        }
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/scaling");
    eprintln!("\n{page}");
    if quick {
        return Ok(());
    }
    fs::create_dir_all(&docs)?;
    let calls = chart("Store calls per decision", "one call each", calls);
    let shares = chart("Fairness between processes (Jain's index)", "equal", shares);
    for (name, text) in [
        ("simulation.md", page),
        ("calls.svg", calls.to_string()),
        ("fairness.svg", shares.to_string()),
    ] {
        fs::write(docs.join(name), text)
            .with_context(|| format!("can't write docs/scaling/{name}"))?;
    }
    Ok(())
}

fn simulate(plan: Plan, stack: &str) -> Outcome {
    match stack {
        "no layer" => Fleet::new(plan, |far, _| far).run(),
        "deny cache" => {
            Fleet::new(plan, |far, clock| DenyCache::builder(far).clock(clock).build()).run()
        }
        _ => Fleet::new(plan, |far, clock| {
            let cache = DenyCache::builder(far).clock(clock.clone()).build();
            Leases::builder(cache).by_default(Some(LeaseOptions::default())).clock(clock).build()
        })
        .run(),
    }
}

fn row(stack: &str, outcome: &Outcome) -> String {
    let per = |part: u64| part as f64 / outcome.requests as f64;
    let busiest = outcome.calls_by_process.iter().max().copied().unwrap_or(0);
    let seconds = outcome.micros as f64 / 1e6;
    let fairness: Vec<String> =
        outcome.shares.iter().map(|share| format!("{:.3}", share.fairness)).collect();
    format!(
        "| {stack} | {:.3} | {:.0} | {:.1} % | {:.1} % | {:.2} % | {} | {} |",
        per(outcome.calls),
        busiest as f64 / seconds,
        100.0 * per(outcome.allowed),
        100.0 * per(outcome.local),
        100.0 * outcome.wasted as f64 / outcome.allowed as f64,
        outcome.over,
        fairness.join(", "),
    )
}

fn chart(title: &str, mark: &str, bars: Vec<Bar>) -> BarChart {
    BarChart {
        title: title.to_owned(),
        mark: mark.to_owned(),
        good: "simulated".to_owned(),
        bad: String::new(),
        bars,
    }
}

fn bar(name: &str, value: f64) -> Bar {
    Bar {
        name: name.to_owned(),
        label: format!("{value:.3}"),
        permille: (value * 1e3).round() as u64,
        is_good: true,
    }
}

const HEAD: &str = "\
# A simulated fleet

`cargo xtask bench --scale` writes this page. The numbers are the same each time, except for the last digits of leases,
because their tables place keys randomly. The processes run the real layers, and the store runs the real kernels on a
map. Time is virtual: three seconds of a million requests each, for about a million keys. The keys follow Zipf's law
with the exponent 1: the first key gets 7 of 100 requests, the second half as many. A round trip takes 500 µs. Leases
have the default options: at most 1,000 requests and one second.

Unspent leased units include those still held at the end of the three seconds. Fairness is Jain's index of each
process's number of admissions for a key. It is 1 if all are equal, and 1/n if only one process was admitted. Chance
alone makes it less than 1, the more so the fewer admissions each process gets.
";

const TABLE: &str = "\
| layers | store calls per decision | calls/s of the busiest process | allowed | decided without a call | unspent leased units per allowed unit | units over any limit | fairness for the keys 1, 10, 100 |
| --- | --- | --- | --- | --- | --- | --- | --- |
";
