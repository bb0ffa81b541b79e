//! `cargo xtask test`: every test, on real servers.

use anyhow::Result;

use crate::run::{cargo, run};
use crate::setup::ensure_servers;
use crate::test_programs;

/// Makes sure there is a server, then runs the tests.
///
/// With `arguments`, `cargo test` gets them. Without, all programs run, and then the examples in the
/// documentation.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    const ALL: [&str; 2] = ["--workspace", "--all-features"];
    ensure_servers()?;
    if arguments.is_empty() {
        let programs = test_programs::build(cargo(&["test"]).args(ALL))?;
        let ran = test_programs::run_all(programs);
        let examples = run(cargo(&["test", "--doc", "--no-fail-fast"]).args(ALL));
        return ran.and(examples);
    }
    let mut command = cargo(&["test"]);
    if !selects_packages(arguments) {
        command.args(ALL);
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
