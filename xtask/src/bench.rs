//! `cargo xtask bench`: the benchmarks, in a workspace of their own.

use anyhow::{Result, bail};

use crate::run::{cargo, run};
use crate::servers::workspace_root;
use crate::setup::ensure_servers;

/// Runs the benchmark program; only what it prints itself goes to standard output.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    let manifest = workspace_root().join("bench/Cargo.toml");
    if !manifest.is_file() {
        bail!("{} is missing: there are no benchmarks in this checkout", manifest.display());
    }
    ensure_servers()?;
    let mut command = cargo(&["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"]);
    run(command.args(arguments))
}
