//! `cargo xtask bench`: the benchmarks, in a workspace of their own.

use anyhow::{Result, bail};

use crate::packages::install_program;
use crate::run::{cargo, find_program, run, say};
use crate::servers::workspace_root;
use crate::setup::ensure_servers;

/// Runs the benchmark program. Only the program's own output goes to standard output.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    let manifest = workspace_root().join("bench/Cargo.toml");
    if !manifest.is_file() {
        bail!("{} is missing: there are no benchmarks in this checkout", manifest.display());
    }
    ensure_servers()?;
    ensure_load_generator();
    let mut command = cargo(&["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"]);
    run(command.args(arguments))
}

/// Installs the load generator. One goal needs it; without it, that goal is reported as not measured.
fn ensure_load_generator() {
    const PROGRAM: &str = "wrk";
    if find_program(PROGRAM).is_some() {
        return;
    }
    if let Err(error) = install_program(PROGRAM) {
        say(&format!("{PROGRAM} can't be had, so the middleware is NOT MEASURED: {error:#}"));
    }
}
