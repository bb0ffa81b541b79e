//! Sluicegate, compared with its floors and rivals.
//!
//! Every goal is a number measured in one run. Most are a ratio of two things measured in turns, in
//! short segments, so that other work of the machine slows down both. With `--json`, standard output
//! has one JSON object per goal; otherwise it is empty. Text for people goes to standard error.

mod client;
mod counting;
mod embedded;
mod erasure;
mod goals;
mod http;
mod layer;
mod limitador;
mod machine;
mod measure;
mod operator;
mod overload;
mod plot;
mod program;
mod queue;
mod redis;
mod replay;
mod report;
mod resp;
mod rivals;
mod rlqs;
mod rls;
mod runs;
mod scale;
mod served;
mod topology;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;

use measure::{Effort, Session};

/// Counts allocations for the goals about memory.
#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Compare Sluicegate with its floors and rivals
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// Print one JSON object per goal, each on a line of standard output
    #[arg(long)]
    json: bool,

    /// Measure for a fraction of the time, for a first look; docs/benchmarks.md stays unchanged
    #[arg(long)]
    quick: bool,

    /// Measure only goals whose name contains this; docs/benchmarks.md stays unchanged
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,

    /// Keep the values in FILE, the output of an earlier run with --json, and measure the other goals
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    complete: Option<PathBuf>,

    /// Simulate a fleet of a thousand processes instead, and write docs/scaling/
    #[arg(long, conflicts_with_all = ["json", "only", "complete"])]
    scale: bool,

    /// The part of a measurement that needs a process of its own
    #[arg(long, hide = true, value_name = "STORE")]
    child: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.child {
        Some(what) => match what.strip_prefix(queue::CHILD) {
            Some(waiters) => queue::child(waiters),
            None => embedded::memory::child(what),
        },
        None if arguments.scale => scale::run(arguments.quick),
        None => run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let effort = if arguments.quick { Effort::Quick } else { Effort::Full };
    let mut session = Session::new(effort, arguments.only.clone());
    if let Some(path) = &arguments.complete {
        let text =
            fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        let earlier = report::read_lines(&text)
            .with_context(|| format!("{} isn't the output of --json", path.display()))?;
        session = session.complete(earlier);
    }
    embedded::measure(&mut session);
    redis::measure(&mut session);
    queue::measure(&mut session);
    client::measure(&mut session);
    topology::measure(&mut session);
    overload::measure(&mut session);
    http::measure(&mut session);
    operator::measure(&mut session);
    resp::measure(&mut session);
    rls::measure(&mut session);
    rlqs::measure(&mut session);
    layer::measure(&mut session);
    erasure::measure(&mut session);
    replay::measure(&mut session);
    let rows = session.rows();
    if rows.is_empty() {
        anyhow::bail!("no goal is called like that; there are: {}", goals::names().join(", "));
    }
    eprint!("\n{}", report::table(&rows));
    if arguments.json {
        print!("{}", report::json_lines(&rows));
    }
    if effort == Effort::Full && arguments.only.is_none() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        report::write_page(&docs, &rows)?;
    }
    Ok(())
}
