//! Runs other programs, and prints what runs.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::servers::{tools_folder, workspace_root};

/// Prints a message for the developer.
#[expect(clippy::print_stderr, reason = "this is the tool's one way to speak")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// One part of a task: its heading and its function.
pub(crate) type Part = (&'static str, fn() -> Result<()>);

/// Runs every part, even after one has failed, so that one run reports all failures. Returns the headings of those that
/// failed.
pub(crate) fn run_parts(parts: impl Iterator<Item = Part>) -> Vec<&'static str> {
    let failed = parts.filter(|(heading, part)| !run_part(heading, part));
    failed.map(|(heading, _)| heading).collect()
}

/// Runs one part under a heading, and prints its result, the reason and its duration.
#[expect(clippy::disallowed_methods, reason = "a development command may time its own parts")]
pub(crate) fn run_part(heading: &str, part: impl FnOnce() -> Result<()>) -> bool {
    say(&format!("\n==> {heading}"));
    let started = Instant::now();
    let outcome = part();
    let seconds = started.elapsed().as_secs_f64();
    match &outcome {
        Ok(()) => say(&format!("<== {heading}: ok after {seconds:.1} s")),
        Err(error) => say(&format!("<== {heading}: FAILED after {seconds:.1} s: {error:#}")),
    }
    outcome.is_ok()
}

/// Returns a `cargo` command in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    // $CARGO is the toolchain's own cargo, which doesn't understand `+nightly`.
    let mut command = program(Path::new("cargo"));
    command.args(arguments);
    command
}

/// Returns a `cargo` command of another toolchain than the workspace's.
pub(crate) fn cargo_of(toolchain: &str, arguments: &[&str]) -> Command {
    let mut command = cargo(&[&format!("+{toolchain}")]);
    // The `cargo` that runs this program sets these. `+nightly` overrides them, but programs that a
    // cargo tool starts get no such argument.
    command.args(arguments).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

/// Returns a command in the workspace's folder, which also finds programs in `target/tools`.
pub(crate) fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.current_dir(workspace_root()).env("PATH", search_path());
    command
}

/// Runs a command to its end, with the output streams of this program.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    say(&format!("    $ {}", shown(command)));
    let status = command.status().with_context(|| format!("can't run `{}`", shown(command)))?;
    succeeded(command, status)
}

/// Runs a command to its end, with all its output on standard error.
pub(crate) fn run_aside(command: &mut Command) -> Result<()> {
    run(command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr())))
}

/// Runs a command while `work` is done. The command's output comes when it has ended.
pub(crate) fn run_beside<T>(command: &mut Command, work: impl FnOnce() -> T) -> (T, Result<()>) {
    thread::scope(|scope| {
        let beside = scope.spawn(|| run_quietly(command));
        let done = work();
        (done, beside.join().unwrap_or_else(|_| bail!("the work beside ended with a panic")))
    })
}

/// Runs a command to its end, and prints its output afterwards.
fn run_quietly(command: &mut Command) -> Result<()> {
    say(&format!("    $ {} (its output comes later)", shown(command)));
    let output = command.output().with_context(|| format!("can't run `{}`", shown(command)))?;
    io::stdout().write_all(&output.stdout)?;
    io::stderr().write_all(&output.stderr)?;
    succeeded(command, output.status)
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Returns whether a command can be run and succeeds, without showing its output.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Installs `cargo NAME` into `target/tools` unless it is installed already.
pub(crate) fn ensure_cargo_tool(name: &str, version: &str) -> Result<()> {
    ensure_program(&format!("cargo-{name}"), version, &[])
}

/// Installs a program from its package into `target/tools` unless it is installed already.
pub(crate) fn ensure_program(package: &str, version: &str, features: &[&str]) -> Result<()> {
    if find_program(package).is_some() {
        return Ok(());
    }
    let tools = workspace_root().join("target/tools");
    let mut command = cargo(&["install", package, "--locked", "--version", version]);
    command.args(features).arg("--root").arg(tools);
    // The program runs for seconds, but an optimised build would take minutes.
    for (setting, value) in [("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "0")] {
        command.env(format!("CARGO_PROFILE_RELEASE_{setting}"), value);
    }
    run_aside(&mut command)
}

/// Returns the file that would run as `name`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let folders = search_path();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn search_path() -> OsString {
    let inherited = env::var_os("PATH").unwrap_or_default();
    // Last, so that programs that the developer installed take precedence.
    let folders = env::split_paths(&inherited).chain([tools_folder()]);
    // Only a folder with a `:` in its name can't be joined.
    env::join_paths(folders).unwrap_or(inherited)
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
