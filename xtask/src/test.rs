//! `cargo xtask test`: every test, on real servers.

use anyhow::Result;

use crate::run::{cargo, has_cargo_tool, run};
use crate::setup::ensure_servers;

/// Makes sure there is a server, then runs the tests. `cargo test` always handles `arguments`, so
/// that they have one meaning on every machine.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    ensure_servers()?;
    if arguments.is_empty() && has_cargo_tool("nextest") {
        run(&mut cargo(&["nextest", "run", "--workspace", "--all-features"]))?;
        // Nextest doesn't run examples in the documentation.
        return run(&mut cargo(&["test", "--doc", "--workspace", "--all-features"]));
    }
    let mut command = cargo(&["test"]);
    if !selects_packages(arguments) {
        command.args(["--workspace", "--all-features"]);
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
