//! Programs that are built like a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sluicegate_testkit::servers::tools_folder;

/// Builds the sluicegate command, and returns its path.
pub fn build(root: &Path) -> Result<PathBuf> {
    compile(root, "sluicegate-server", "sluicegate", &[])
}

/// Builds the sluicegate command with only these features, and returns the path of a copy: the next build replaces the
/// program.
pub fn build_with(root: &Path, features: &str) -> Result<PathBuf> {
    let which = ["--no-default-features", "--features", features];
    let program = compile(root, "sluicegate-server", "sluicegate", &which)?;
    let copy = program.with_file_name(format!("sluicegate-{}", features.replace(',', "-")));
    fs::copy(&program, &copy).with_context(|| format!("can't write {}", copy.display()))?;
    Ok(copy)
}

/// Builds another program of this crate, and returns its path.
pub fn build_own(name: &str) -> Result<PathBuf> {
    compile(Path::new(env!("CARGO_MANIFEST_DIR")), env!("CARGO_PKG_NAME"), name, &[])
}

/// Returns a rival's program of a version, which cargo builds from `source` the first time, with these environment
/// variables.
pub fn install(
    package: &str,
    version: &str,
    source: &[&str],
    variables: &[(&str, PathBuf)],
) -> Result<PathBuf> {
    let root = tools_folder().join(format!("{package}-{version}"));
    let program = root.join("bin").join(package);
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("    building {package}");
    let mut command = Command::new("cargo");
    command.args(["install", "--quiet", "--locked", package]).args(source);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.arg("--root").arg(&root).output().context("can't run cargo")?;
    let message = String::from_utf8_lossy(&output.stderr);
    // The lines before the last ones are the output of a build script.
    let mut last: Vec<_> = message.lines().rev().filter(|it| !it.is_empty()).take(3).collect();
    last.reverse();
    ensure!(output.status.success(), "{package} doesn't build: {}", last.join(" "));
    Ok(program)
}

fn compile(folder: &Path, package: &str, program: &str, features: &[&str]) -> Result<PathBuf> {
    eprintln!("    building {program}");
    let mut command = Command::new("cargo");
    command
        .current_dir(folder)
        .args(["build", "--quiet", "--release", "--package", package, "--bin", program])
        .args(["--message-format", "json-render-diagnostics"])
        .args(features)
        .stderr(Stdio::inherit());
    // Cargo sets these for the build of this program; another workspace must not get them.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME"] {
        command.env_remove(name);
    }
    let output = command.output().context("can't run cargo")?;
    ensure!(output.status.success(), "{program} doesn't build");
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executable = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    executable.next_back().context("cargo names no executable")
}
