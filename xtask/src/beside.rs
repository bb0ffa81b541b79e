//! Workspaces next to ours, compiled in our folder and in our development profile, so that they reuse
//! what is compiled there already. In another profile each dependency would be compiled a second
//! time.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::members::Workspace;
use crate::run::cargo;
use crate::servers::workspace_root;

/// Returns a cargo command for the workspace of `manifest`.
pub(crate) fn cargo_beside(
    ours: &Workspace,
    manifest: &Path,
    arguments: &[&str],
) -> Result<Command> {
    let path = workspace_root().join("Cargo.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let folder = &ours.target_directory;
    // Cargo also reads profiles from configuration files, and these take precedence over manifests.
    let profile = folder.join("profile-beside.toml");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&profile, section(&text)))
        .with_context(|| format!("can't write {}", profile.display()))?;
    let mut command = cargo(arguments);
    command.arg("--manifest-path").arg(manifest);
    command.arg("--target-dir").arg(folder).arg("--config").arg(profile);
    Ok(command)
}

/// Returns the manifest's sections about the development profile, including those for single
/// packages.
fn section(manifest: &str) -> String {
    let tables = manifest.split("\n[").skip(1).filter(|table| {
        let heading = table.split(']').next().unwrap_or_default();
        heading == "profile.dev" || heading.starts_with("profile.dev.")
    });
    tables.map(|table| format!("[{}\n", table.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_our_own() {
        let manifest = "[package]\n\n[profile.dev]\n# why\ndebug = 1\n\n[profile.develop]\n\n\
                        [profile.dev.package]\na.opt-level = 1\n\n[profile.mutants]\n";
        let its = "[profile.dev]\n# why\ndebug = 1\n[profile.dev.package]\na.opt-level = 1\n";
        assert_eq!(section(manifest), its);
        let own = fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(section(&own).contains("opt-level"));
    }
}
