//! `cargo xtask deb`: the Debian package, with pages of the manual and completions that the program writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::members::Workspace;
use crate::run::{cargo, program, run, say};
use crate::servers::workspace_root;

/// The folder that the assets in the manifest of `sluicegate-server` name.
const FOLDER: &str = "target/deb";

/// Shells with a package of completions, and the name of the file that each looks for.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "sluicegate"), ("zsh", "_sluicegate"), ("fish", "sluicegate.fish")];

/// Builds the program, lets it write its pages and completions, and packages them all.
pub(crate) fn deb() -> Result<()> {
    let package = ["--package", "sluicegate-server"];
    run(cargo(&["build", "--release", "--locked"]).args(package))?;
    let workspace = Workspace::members_only()?;
    write_pages(&workspace.target_directory.join("release/sluicegate"))?;
    run(cargo(&["deb", "--no-build"]).args(package))
        .context("`cargo install --locked cargo-deb` installs the command")
}

/// Writes the pages of the manual and the completions of this program into the folder of assets.
fn write_pages(binary: &Path) -> Result<()> {
    let folder = workspace_root().join(FOLDER);
    // A command that is gone must not leave its page behind.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("can't empty {}", folder.display()))?;
    }
    for name in ["man", "completions"] {
        let part = folder.join(name);
        fs::create_dir_all(&part).with_context(|| format!("can't make {}", part.display()))?;
    }
    output(program(binary).arg("man").arg(folder.join("man")))?;
    for (shell, name) in COMPLETIONS {
        let script = output(program(binary).args(["completions", shell]))?;
        let path = folder.join("completions").join(name);
        fs::write(&path, script).with_context(|| format!("can't write {}", path.display()))?;
    }
    say(&format!("the pages and completions are in {FOLDER}"));
    Ok(())
}

/// Returns the standard output of a command that must succeed.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("can't run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The package lacks a file without any error if a path in the manifest differs from that in this file.
    #[test]
    fn the_manifest_names_each_file() {
        let manifest = workspace_root().join("crates/sluicegate-server/Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains(&format!("[\"../../{FOLDER}/man/*.1\", ")));
        for (_, name) in COMPLETIONS {
            let asset = format!("[\"../../{FOLDER}/completions/{name}\", ");
            assert!(manifest.contains(&asset), "{asset}");
        }
    }
}
