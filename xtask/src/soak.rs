//! `cargo xtask soak`: tests that take too long to run for every change.

use std::fmt;
use std::fs;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::lua_mutants::lua_mutants;
use crate::run::{cargo, cargo_of, ensure_cargo_tool, run, run_part, say};
use crate::servers::workspace_root;
use crate::setup::ensure_servers;

/// The factor for the number of random schedules, which makes some millions.
const TIMES: &str = "500";
/// The number of times each fault happens in a row.
const CHAOS_TIMES: &str = "10";
/// The seconds for each fuzz target.
const FUZZ_TIME: u32 = 60;
/// The number of rounds in which Envoys share a limit, about a minute each.
const QUOTA_ROUNDS: &str = "20";
/// The factor for the events that an open page takes: those of 8 hours.
const PAGE_TIMES: &str = "48";

/// Crates whose code is changed, and the crates with the tests that must notice.
const MUTATED: [(&str, &[&str]); 4] = [
    // The reference model checks the decisions of the core, and so do the tests of the stores.
    ("sluicegate-core", &["sluicegate-core", "sluicegate-conformance", "sluicegate-memory"]),
    ("sluicegate-memory", &["sluicegate-memory"]),
    ("sluicegate-redis", &["sluicegate-redis", "sluicegate-testkit"]),
    ("sluicegate-http", &["sluicegate-http", "sluicegate-tower"]),
];

/// A part of the long tests.
#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
pub(crate) enum Soak {
    /// Every test in release, with 500 times as many random schedules: some hours
    Schedules,
    /// Every fault of the chaos tests 10 times in a row on every server, and 10 minutes of killed
    /// holders: an hour
    Chaos,
    /// Small changes to core, stores and HTTP, which some test must notice: some days
    Mutants,
    /// Small changes to the scripts, which some test must notice: some hours
    Scripts,
    /// The protocol of leases with larger numbers than in every test run: some minutes
    Models,
    /// Every fuzz target for 1 minute
    Fuzz,
    /// Two real Envoys on two replicas that share a limit, with demand that moves: 21 minutes
    Quotas,
    /// The page of operators, open for the events of 8 hours, whose memory must stay flat: 10 minutes
    Page,
}

/// One of several equal parts of all mutants.
#[derive(Clone, Copy)]
pub(crate) struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    const ALL: Self = Self { number: 0, of: 1 };
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        parsed
            .filter(|shard| shard.number < shard.of)
            .ok_or_else(|| "write K/N, with K from 0 to N - 1, such as 3/40".to_owned())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Runs the long tests: all, or the named ones. `shard` selects mutants, and `file` selects a script
/// for its mutants.
pub(crate) fn soak(wanted: &[Soak], shard: Option<Shard>, file: Option<&str>) -> Result<()> {
    ensure_servers()?;
    let wanted = if wanted.is_empty() { Soak::value_variants() } else { wanted };
    let shard = shard.unwrap_or(Shard::ALL);
    let mut failed = Vec::new();
    for soak in wanted {
        let heading = match soak {
            Soak::Schedules => "long schedules",
            Soak::Chaos => "long chaos",
            Soak::Mutants => "mutants",
            Soak::Scripts => "mutants of the scripts",
            Soak::Models => "larger models",
            Soak::Fuzz => "fuzzing",
            Soak::Quotas => "long quotas",
            Soak::Page => "long shift of the page",
        };
        let is_fine = run_part(heading, || match soak {
            Soak::Schedules => long_schedules(),
            Soak::Chaos => long_chaos(),
            Soak::Mutants => mutants(shard),
            Soak::Scripts => lua_mutants(file, |number| number % shard.of == shard.number),
            Soak::Models => larger_models(),
            Soak::Fuzz => fuzz(),
            Soak::Quotas => {
                long_service("real_envoy::quotas::envoys_of_two_replicas", QUOTA_ROUNDS)
            }
            Soak::Page => long_service("page::shift::", PAGE_TIMES),
        });
        if !is_fine {
            failed.push(heading);
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// Runs all tests with longer schedules: the generators read the variable and make that many times
/// more.
fn long_schedules() -> Result<()> {
    let what = ["test", "--release", "--workspace", "--all-features", "--no-fail-fast"];
    run(cargo(&what).env("SLUICEGATE_SOAK", TIMES))
}

/// Runs the chaos tests longer, and shows their measurements.
fn long_chaos() -> Result<()> {
    let what = ["test", "--release", "-p", "sluicegate", "--all-features", "--test", "integration"];
    run(cargo(&what).args(["chaos::", "--", "--nocapture"]).env("SLUICEGATE_SOAK", CHAOS_TIMES))
}

/// Runs the model searches that other runs ignore because of their time and memory. They print the
/// number of states that they visit.
fn larger_models() -> Result<()> {
    let what = ["test", "--release", "--package", "sluicegate-testkit", "--test", "integration"];
    let mut command = cargo(&what);
    command.arg("lease_model::a_larger_model_holds");
    run(command.args(["--", "--exact", "--ignored", "--nocapture"]))
}

/// Changes the code in small steps, each of which must make some test fail. `.cargo/mutants.toml`
/// lists changes that can't be observed.
fn mutants(shard: Shard) -> Result<()> {
    ensure_cargo_tool("mutants", "27.1.0")?;
    let mut failed = Vec::new();
    for (package, tests) in MUTATED {
        if !run_part(package, || mutants_of(package, tests, shard)) {
            failed.push(package);
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("mutants survive in {}", failed.join(", ")) }
}

fn mutants_of(package: &str, tests: &[&str], shard: Shard) -> Result<()> {
    let folder = workspace_root().join("target/mutants");
    let output = folder.join(package);
    fs::create_dir_all(&output)?;
    // Dependencies are built once for all of them.
    let built = folder.join("build");
    // First run the tests without a mutant: if a test fails anyway, every mutant seems to be noticed.
    let mut as_it_is = cargo(&["test", "--profile", "mutants", "--all-features"]);
    let mut mutated = cargo(&["mutants", "--package", package, "--all-features"]);
    mutated.args(["--shard", &shard.to_string(), "--sharding", "round-robin"]);
    mutated.args(["--baseline", "skip", "--timeout", "300"]).arg("--output").arg(output);
    for tests in tests {
        as_it_is.args(["--package", tests]);
        mutated.args(["--test-package", tests]);
    }
    run(as_it_is.env("CARGO_TARGET_DIR", &built))?;
    run(mutated.env("CARGO_TARGET_DIR", &built))
}

/// Runs a test of the service longer, by the factor `times`, and shows what it finds.
fn long_service(test: &str, times: &str) -> Result<()> {
    let what = ["test", "--package", "sluicegate-server", "--all-features", "--test", "binary"];
    let mut command = cargo(&what);
    run(command.args([test, "--", "--nocapture"]).env("SLUICEGATE_SOAK", times))
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

/// Returns a command of the nightly compiler, which sanitizers need.
fn nightly(arguments: &[&str]) -> Command {
    cargo_of("nightly", arguments)
}
