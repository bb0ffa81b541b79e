//! `cargo xtask test`: every test, on real servers.

use std::env;
use std::thread::available_parallelism;

use anyhow::Result;

use crate::run::{cargo, run};
use crate::setup::ensure_servers;

/// The variable for the number of tests that a program runs at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// Makes sure there is a server, then runs the tests.
///
/// Twice as many tests as cores run at the same time, because half of them wait for servers.
/// `RUST_TEST_THREADS` overrides that.
///
/// With `arguments`, `cargo test` gets them. Without, all programs and all examples in the
/// documentation run, even after one has failed, so that one run reports all failures.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    ensure_servers()?;
    let mut command = cargo(&["test"]);
    if !selects_packages(arguments) {
        command.args(["--workspace", "--all-features"]);
    }
    if arguments.is_empty() {
        command.arg("--no-fail-fast");
    }
    if env::var_os(THREADS).is_none() {
        let cores = available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (2 * cores).to_string());
    }
    run(command.args(arguments))
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
