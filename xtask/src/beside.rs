//! Workspaces beside ours: compiled in our folder and in our development profile, they take what
//! is compiled there already. In another profile each dependency would be compiled once more.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::members::Workspace;
use crate::run::cargo;
use crate::servers::workspace_root;

/// A cargo command for the workspace of that manifest.
pub(crate) fn cargo_beside(
    ours: &Workspace,
    manifest: &Path,
    arguments: &[&str],
) -> Result<Command> {
    let path = workspace_root().join("Cargo.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let folder = &ours.target_directory;
    // Cargo reads profiles from files of configuration too, and these go before manifests.
    let profile = folder.join("profile-beside.toml");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&profile, section(&text)))
        .with_context(|| format!("can't write {}", profile.display()))?;
    let mut command = cargo(arguments);
    command.arg("--manifest-path").arg(manifest);
    command.arg("--target-dir").arg(folder).arg("--config").arg(profile);
    Ok(command)
}

/// The development profile, as a manifest has it.
fn section(manifest: &str) -> String {
    const HEADING: &str = "[profile.dev]\n";
    let Some((_, rest)) = manifest.split_once(HEADING) else { return String::new() };
    let section = rest.split("\n[").next().unwrap_or_default();
    format!("{HEADING}{}\n", section.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_our_own() {
        let manifest = "[profile.release]\nlto = \"thin\"\n\n[profile.dev]\n# why\nopt-level = 1\n\n\
                        [profile.mutants]\ninherits = \"dev\"\n";
        assert_eq!(section(manifest), "[profile.dev]\n# why\nopt-level = 1\n");
        let own = fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(section(&own).contains("opt-level"));
    }
}
