//! `cargo xtask soak`: what takes too long for every change.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::run::{Part, cargo, cargo_of, ensure_cargo_tool, run, run_part, run_parts, say};
use crate::servers::workspace_root;
use crate::setup::ensure_servers;

/// How many times as many random schedules: some millions.
const TIMES: &str = "500";
/// Seconds for each fuzz target.
const FUZZ_TIME: u32 = 60;

/// What there is to run.
#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
pub(crate) enum Soak {
    /// Every test in release, with five hundred times as many random schedules: some hours
    Schedules,
    /// Small changes to the kernels, each of which some test must notice: about two hours
    Mutants,
    /// Every fuzz target for a minute
    Fuzz,
}

impl Soak {
    const fn part(self) -> Part {
        match self {
            Self::Schedules => ("long schedules", long_schedules),
            Self::Mutants => ("mutants of the kernels", mutants),
            Self::Fuzz => ("fuzzing", fuzz),
        }
    }
}

/// Runs the long tests: those named, or all.
pub(crate) fn soak(wanted: &[Soak]) -> Result<()> {
    ensure_servers()?;
    let wanted = if wanted.is_empty() { Soak::value_variants() } else { wanted };
    let parts: Vec<Part> = wanted.iter().map(|soak| soak.part()).collect();
    run_parts(&parts)
}

/// The same tests as ever: the schedule generators read the variable and make that many times more.
fn long_schedules() -> Result<()> {
    let what = ["test", "--release", "--workspace", "--all-features", "--no-fail-fast"];
    run(cargo(&what).env("SLUICEGATE_SOAK", TIMES))
}

/// Each small change to what decides must make some test fail. What is changed, by which tests it
/// is to be noticed, and what can't be observed is in `.cargo/mutants.toml`.
fn mutants() -> Result<()> {
    ensure_cargo_tool("mutants", "27.1.0")?;
    // The unmutated tree has just passed; a baseline would look for the tests in the wrong crate.
    let options =
        ["--test-package", "sluicegate-testkit", "--baseline", "skip", "--timeout", "300"];
    run(cargo(&["mutants", "--output", "target"]).args(options))
}

fn fuzz() -> Result<()> {
    if !workspace_root().join("fuzz/Cargo.toml").is_file() {
        say("there is no fuzz/Cargo.toml: NOTHING WAS FUZZED");
        return Ok(());
    }
    ensure_cargo_tool("fuzz", "0.13.2")?;
    let list =
        nightly(&["fuzz", "list"]).output().context("can't run `cargo +nightly fuzz list`")?;
    if !list.status.success() {
        let why = String::from_utf8_lossy(&list.stderr);
        bail!("`cargo +nightly fuzz list` ended with {}: {why}", list.status);
    }
    let targets = String::from_utf8_lossy(&list.stdout).into_owned();
    let limit = format!("-max_total_time={FUZZ_TIME}");
    let mut failed = Vec::new();
    for target in targets.lines() {
        if !run_part(&format!("fuzz target {target}"), || fuzz_one(target, &limit)) {
            failed.push(target);
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed targets: {}", failed.join(", ")) }
}

/// Continues with the useful inputs of earlier runs; a new clone begins with the seeds.
fn fuzz_one(target: &str, limit: &str) -> Result<()> {
    let folder = workspace_root().join("fuzz");
    let corpus = folder.join("corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("can't create {}", corpus.display()))?;
    let mut command = nightly(&["fuzz", "run", target]);
    command.arg(corpus).arg(folder.join("seeds").join(target));
    run(command.args(["--", limit]))
}

/// Sanitizers need the nightly compiler.
fn nightly(arguments: &[&str]) -> Command {
    cargo_of("nightly", arguments)
}
