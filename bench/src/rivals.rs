//! Other limiters, which cargo builds the first time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use sluicegate_testkit::servers::tools_folder;

use crate::program::install;

/// The version of throttlecrab that is compared.
pub const THROTTLECRAB: &str = "0.4.40";
/// The version of redis-cell that is compared.
pub const REDIS_CELL: &str = "0.5.0";

/// Returns the program of throttlecrab's server.
pub fn throttlecrab() -> Result<PathBuf> {
    install("throttlecrab-server", THROTTLECRAB, &["--version", THROTTLECRAB], &[])
}

/// Returns the module redis-cell. Its versions since 0.2 are only in its repository.
pub fn redis_cell() -> Result<PathBuf> {
    const REPOSITORY: &str = "https://github.com/brandur/redis-cell";
    let folder = tools_folder().join(format!("redis-cell-{REDIS_CELL}"));
    let module = folder.join("libredis_cell.so");
    if module.is_file() {
        return Ok(module);
    }
    eprintln!("    building redis-cell");
    let source = folder.join("source");
    if !source.join("Cargo.toml").is_file() {
        fs::create_dir_all(&folder)?;
        let tag = format!("v{REDIS_CELL}");
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--depth", "1", "--branch", &tag, REPOSITORY]);
        run(clone.arg(&source), "git can't clone redis-cell")?;
    }
    let mut build = Command::new("cargo");
    build.current_dir(&source).args(["build", "--quiet", "--release", "--locked"]);
    run(build.arg("--target-dir").arg(folder.join("target")), "redis-cell doesn't build")?;
    fs::copy(folder.join("target/release/libredis_cell.so"), &module)?;
    Ok(module)
}

fn run(command: &mut Command, problem: &str) -> Result<()> {
    let output = command.output().context(problem.to_owned())?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{problem}: {}", message.trim());
    Ok(())
}
