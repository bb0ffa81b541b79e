//! Test programs: builds them, and runs all of them, even after one has failed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::run::{program, say};
use crate::servers::workspace_root;

/// Number of programs that run at the same time. Each also runs its tests on several threads.
///
/// Many tests wait for servers, so two programs would use two processors better. But tests that
/// measure time may fail if another program takes the processors.
const AT_ONCE: usize = 1;

/// Packages whose programs take longest. They start first, so that none of them runs alone at the end.
const SLOWEST: [&str; 3] = ["sluicegate-testkit", "sluicegate", "sluicegate-redis"];

/// A program with tests.
pub(crate) struct TestProgram {
    /// Manifest of its package.
    pub(crate) manifest: PathBuf,
    pub(crate) path: PathBuf,
    /// File with its tests' root module.
    source: PathBuf,
}

/// A line of cargo's output.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the programs of a `cargo test` command.
pub(crate) fn build(command: &mut Command) -> Result<Vec<TestProgram>> {
    command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output().context("can't run cargo")?;
    if !output.status.success() {
        bail!("the tests can't be built");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let programs = messages.filter(|message| message.profile.test).filter_map(|message| {
        let Message { executable, manifest_path: manifest, target, .. } = message;
        Some(TestProgram { manifest, path: executable?, source: target.src_path })
    });
    Ok(programs.collect())
}

/// Runs all programs, even after one has failed. Prints the output of each when it ends.
pub(crate) fn run_all(mut programs: Vec<TestProgram>) -> Result<()> {
    let place = |program: &TestProgram| {
        let place = SLOWEST.iter().position(|package| *package == program.package());
        // Integration tests take longer than the others of a package.
        (place.unwrap_or(SLOWEST.len()), program.source.ends_with("src/lib.rs"))
    };
    programs.sort_by_cached_key(place);
    let (count, failed) = (programs.len(), Mutex::new(Vec::new()));
    let next = Mutex::new(programs.into_iter());
    let work = || {
        while let Some(program) = next.lock().ok().and_then(|mut programs| programs.next()) {
            let name = program.name();
            say(&format!("     Running {name}"));
            let outcome = program.run();
            let Ok(mut failed) = failed.lock() else { return };
            // While the lock is held, so that no other output comes between.
            match outcome {
                Ok(output) => {
                    say(&format!("\n     Ran {name}"));
                    say(String::from_utf8_lossy(&output.stdout).trim_end());
                    say(String::from_utf8_lossy(&output.stderr).trim_end());
                    if !output.status.success() {
                        failed.push(format!("{name} ended with {}", output.status));
                    }
                }
                Err(error) => failed.push(format!("{name}: {error:#}")),
            }
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("{} of {count} test programs failed: {}", failed.len(), failed.join("; "));
    }
    say(&format!("\n{count} test programs passed"));
    Ok(())
}

impl TestProgram {
    fn folder(&self) -> &Path {
        self.manifest.parent().unwrap_or(&self.manifest)
    }

    /// Returns the name of its package, which is that of its folder.
    fn package(&self) -> &str {
        self.folder().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the file with its tests, relative to the workspace.
    fn name(&self) -> String {
        let source = self.source.strip_prefix(workspace_root()).unwrap_or(&self.source);
        source.display().to_string()
    }

    fn run(&self) -> Result<Output> {
        let mut command = program(&self.path);
        command.current_dir(self.folder());
        // Cargo sets these, and some tests read them.
        command.env("CARGO_MANIFEST_DIR", self.folder()).env("CARGO_PKG_NAME", self.package());
        command.stdin(Stdio::null()).output().context("can't be run")
    }
}
