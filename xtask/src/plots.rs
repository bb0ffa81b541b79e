//! `cargo xtask plots`: the plots of the guide's pages on policies.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, say};
use crate::servers::workspace_root;

/// The tests' own recording and plots, compiled in here as well: what is written is what they
/// expect.
#[path = "../../crates/sluicegate-server/tests/replay/burst.rs"]
mod burst;

/// Plays the guide's recording through every policy and writes the plots to `docs/policies`.
pub(crate) fn plots() -> Result<()> {
    let folder = workspace_root().join("docs/policies");
    let page = replay(&burst::recording(), &burst::arguments("html"))?;
    let plots = burst::plots(&page).context("the page of the replay has other plots")?;
    for (name, plot) in plots {
        let path = folder.join(&name);
        fs::write(&path, plot).with_context(|| format!("can't write {}", path.display()))?;
        say(&format!("wrote docs/policies/{name}"));
    }
    Ok(())
}

fn replay(recording: &str, arguments: &[&str]) -> Result<String> {
    let program = ["run", "--quiet", "--package", "sluicegate-server", "--bin", "sluicegate", "--"];
    let mut command = cargo(&program);
    command.arg("replay").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("can't run cargo")?;
    // Dropped at once, which ends the program's input.
    let input = child.stdin.take().context("the program has no input")?;
    { input }.write_all(recording.as_bytes()).context("the program doesn't read its input")?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`sluicegate replay` ended with {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}
