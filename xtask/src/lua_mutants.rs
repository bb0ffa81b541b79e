//! Mutants of the scripts: each small change to a Lua file must make some test fail.
//!
//! The tests are built once, with a store that reads the changed file at run time. Then they run for
//! each change until one fails. `docs/mutants.md` lists the changes that no test can notice, with the
//! reasons.

mod changes;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::run::{cargo, program, say};
use crate::servers::workspace_root;
use changes::{Change, changes};

/// Packages whose integration tests run scripts, with the modules of these tests. The modules that
/// run scripts in the embedded Lua come first, then those that run them on servers.
const MODULES: [(&str, &[&str]); 3] = [
    (
        "sluicegate-testkit",
        &["versions", "stored", "ids", "permits", "returns", "turns", "scripts", "holds"],
    ),
    ("sluicegate-redis", &["servers", "failures", "detours"]),
    ("sluicegate-testkit", &["defects"]),
];
/// Maximum time without output: some changes make a script run forever.
const PATIENCE: Duration = Duration::from_secs(300);

/// The tests of one module.
struct Module {
    name: &'static str,
    program: PathBuf,
    /// Test names with their paths in the program.
    tests: Vec<String>,
}

/// A change to a file.
struct Mutant {
    file: String,
    text: String,
    change: Change,
}

/// Runs the tests with every mutant of the scripts, or of one file. `wanted` chooses mutants by
/// number.
pub(crate) fn lua_mutants(file: Option<&str>, wanted: impl Fn(usize) -> bool) -> Result<()> {
    let (mut mutants, unnoticeable) = mutants()?;
    if let Some(file) = file {
        mutants.retain(|mutant| mutant.file == file);
        if mutants.is_empty() {
            bail!("no script `{file}` has mutants: name a file of crates/sluicegate-redis/src/lua");
        }
    }
    let mut modules = build()?;
    let changed = workspace_root().join("target/lua-mutants/mutant.lua");
    let first = mutants.first().context("there are no scripts")?;
    say("the tests as they are");
    if let Some(test) = failing(&modules, &changed, None)? {
        bail!("`{test}` fails without any change");
    }
    let nonsense = Change { at: 0..first.text.len(), with: "nonsense".to_owned() };
    let nonsense = Mutant { file: first.file.clone(), text: first.text.clone(), change: nonsense };
    if failing(&modules, &changed, Some(&nonsense))?.is_none() {
        bail!("the tests don't run the changed scripts");
    }
    let chosen = mutants.iter().enumerate().filter(|(number, _)| wanted(*number));
    let chosen: Vec<&Mutant> = chosen.map(|(_, mutant)| mutant).collect();
    say(&format!("{} mutants, {unnoticeable} that nothing can notice", chosen.len()));
    let mut caught: BTreeMap<&str, usize> = BTreeMap::new();
    let mut survivors = Vec::new();
    for (number, mutant) in chosen.iter().enumerate() {
        match failing(&modules, &changed, Some(mutant))? {
            Some(test) => {
                *caught.entry(test).or_default() += 1;
                // The module that caught this mutant most likely catches the next.
                modules.sort_by_key(|module| module.name != test);
            }
            None => {
                say(&format!("SURVIVES {}", mutant.shown()));
                survivors.push(mutant.shown());
            }
        }
        if (number + 1).is_multiple_of(50) {
            say(&format!("{} of {}: caught by {caught:?}", number + 1, chosen.len()));
        }
    }
    say(&format!("caught by {caught:?}"));
    if survivors.is_empty() {
        return Ok(());
    }
    bail!("{} mutants survive:\n{}", survivors.len(), survivors.join("\n"))
}

impl Mutant {
    /// Formats the mutant as in the table of `docs/mutants.md`.
    fn shown(&self) -> String {
        format!("`{}`: `{}`", self.file, self.change.shown(&self.text))
    }
}

/// Returns the mutants that a test can notice, and the number of the others, which the documentation
/// lists.
fn mutants() -> Result<(Vec<Mutant>, usize)> {
    let page = fs::read_to_string(workspace_root().join("docs/mutants.md"))?;
    let listed = listed(&page);
    let folder = workspace_root().join("crates/sluicegate-redis/src/lua");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut mutants = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        mutants.extend(changes(&text).into_iter().map(|change| Mutant {
            file: file.clone(),
            text: text.clone(),
            change,
        }));
    }
    let known: HashSet<String> = mutants.iter().map(Mutant::shown).collect();
    if let Some(stale) = listed.iter().find(|listed| !known.contains(**listed)) {
        bail!("docs/mutants.md has a mutant that there is none of: {stale}");
    }
    let all = mutants.len();
    mutants.retain(|mutant| !listed.contains(mutant.shown().as_str()));
    let unnoticeable = all - mutants.len();
    Ok((mutants, unnoticeable))
}

/// Returns the mutants of scripts in the rows of the page's tables.
fn listed(page: &str) -> HashSet<&str> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.filter(|cell| cell.contains(".lua`: `")).collect()
}

/// Builds the tests with a store that reads the changed file instead of its own.
fn build() -> Result<Vec<Module>> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        manifest_path: PathBuf,
    }
    let mut command = cargo(&["test", "--no-run", "--message-format", "json"]);
    command.args(["--target-dir", "target/lua-mutants", "--profile", "mutants"]);
    command.args(["--all-features", "--test", "integration"]);
    for (package, _) in MODULES {
        command.args(["-p", package]);
    }
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg lua_mutants"));
    let output = command.stderr(Stdio::inherit()).output().context("can't run cargo")?;
    if !output.status.success() {
        bail!("the tests can't be built");
    }
    let mut programs = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Ok(Message { executable: Some(program), manifest_path }) = serde_json::from_str(line)
        {
            programs.insert(manifest_path, program);
        }
    }
    let mut modules = Vec::new();
    for (package, names) in MODULES {
        let manifest = workspace_root().join("crates").join(package).join("Cargo.toml");
        let program = programs.get(&manifest);
        let program = program.with_context(|| format!("no tests of {package} were built"))?;
        for name in names {
            let tests = tests_of(program, name)?;
            modules.push(Module { name, program: program.clone(), tests });
        }
    }
    Ok(modules)
}

/// Returns the tests of a module, as the program lists them.
fn tests_of(path: &Path, module: &str) -> Result<Vec<String>> {
    let output = program(path).arg("--list").output();
    let output = output.with_context(|| format!("can't run {}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let inside = format!("{module}::");
    let tests: Vec<String> =
        names.filter(|name| name.starts_with(&inside)).map(str::to_owned).collect();
    if tests.is_empty() {
        bail!("{} has no test in `{module}`", path.display());
    }
    Ok(tests)
}

/// Returns the first module that fails with the mutant, if one does.
fn failing(
    modules: &[Module],
    file: &Path,
    mutant: Option<&Mutant>,
) -> Result<Option<&'static str>> {
    let pair = mutant.map(|mutant| {
        let Mutant { text, change, .. } = mutant;
        // The store expects two texts: the original file and the changed one.
        format!("{text}\0{}", change.apply(text))
    });
    fs::write(file, pair.unwrap_or_default())
        .with_context(|| format!("can't write {}", file.display()))?;
    for module in modules {
        if fails(module, file)? {
            return Ok(Some(module.name));
        }
    }
    Ok(None)
}

/// Returns whether some test of a module fails. Stops at the first one.
fn fails(module: &Module, mutant: &Path) -> Result<bool> {
    let mut command: Command = program(&module.program);
    command.arg("--exact").args(&module.tests);
    command.env("SLUICEGATE_LUA_MUTANT", mutant).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child =
        command.spawn().with_context(|| format!("can't run the tests of {}", module.name))?;
    let output = child.stdout.take().context("a program without output")?;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let failed = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if line.ends_with("... FAILED") => break true,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => break true,
            // The output has ended, so the program has ended too.
            Err(RecvTimeoutError::Disconnected) => break !child.wait()?.success(),
        }
    };
    // Killing fails for a program that has ended already.
    drop(child.kill());
    child.wait()?;
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_can_notice_is_a_mutant_that_there_is() {
        let (mutants, _) = mutants().unwrap();
        assert!(mutants.len() > 500, "{}", mutants.len());
    }
}
