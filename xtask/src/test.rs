//! `cargo xtask test`: every test, on real servers.

use std::env;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Result, bail};

use crate::members::Workspace;
use crate::run::{cargo, run, run_beside};
use crate::setup::ensure_servers;

/// The variable for the number of tests that a program runs at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// The arguments of all tests. Parts of them need the same compiled crates.
const ALL: [&str; 4] = ["test", "--workspace", "--all-features", "--no-fail-fast"];

/// The name of the programs that have most of the tests.
const MOST: &str = "integration";

/// Makes sure there is a server, then runs the tests.
///
/// With `arguments`, `cargo test` gets them. Without, all programs and all examples in the
/// documentation run, even after one has failed, so that one run reports all failures.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    ensure_servers()?;
    if arguments.is_empty() {
        return test_all();
    }
    let mut command = cargo(&["test"]);
    if !selects_packages(arguments) {
        command.args(["--workspace", "--all-features"]);
    }
    with_threads(&mut command, 2);
    run(command.args(arguments))
}

/// Runs two programs at the same time, because half of the tests wait for servers. The output of those that run aside
/// comes when they have ended.
fn test_all() -> Result<()> {
    run(cargo(&ALL).arg("--no-run"))?;
    let workspace = Workspace::members_only()?;
    let mut first = cargo(&ALL);
    first.args(["--lib", "--bins", "--test", MOST]);
    let mut aside = cargo(&ALL);
    for name in workspace.tests().into_iter().filter(|name| *name != MOST) {
        aside.args(["--test", name]);
    }
    let (first, aside) =
        run_beside(with_threads(&mut aside, 1), || run(with_threads(&mut first, 1)));
    let outcomes = [first, aside, run(cargo(&ALL).arg("--doc"))];
    let errors: Vec<String> =
        outcomes.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
    if errors.is_empty() { Ok(()) } else { bail!("{}", errors.join("; ")) }
}

/// Lets a program run `times` as many tests as there are cores at the same time, unless `RUST_TEST_THREADS` says
/// another number.
fn with_threads(command: &mut Command, times: usize) -> &mut Command {
    if env::var_os(THREADS).is_none() {
        let cores = available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (times * cores).to_string());
    }
    command
}

/// Returns whether the arguments select packages: together with `--workspace`, cargo would ignore
/// `-p`.
fn selects_packages(arguments: &[String]) -> bool {
    let for_cargo = arguments.iter().take_while(|argument| *argument != "--");
    for_cargo.into_iter().any(|argument| {
        argument.starts_with("--package")
            || argument == "--workspace"
            || argument == "--manifest-path"
            || (argument.starts_with("-p") && !argument.starts_with("--"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(arguments: &[&str]) -> bool {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        selects_packages(&arguments)
    }

    #[test]
    fn packages_named_for_cargo_replace_the_workspace() {
        assert!(selects(&["-p", "sluicegate-core"]));
        assert!(selects(&["-psluicegate-core"]));
        assert!(selects(&["--release", "--package=sluicegate-core"]));
        assert!(!selects(&["--release", "bucket"]));
        // Arguments after `--` are for the test programs.
        assert!(!selects(&["--", "-p"]));
    }
}
