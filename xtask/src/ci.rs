//! `cargo xtask ci`: everything a change must pass.

use std::iter::once;

use anyhow::Result;

use crate::beside::cargo_beside;
use crate::book::book;
use crate::lines;
use crate::members::Workspace;
use crate::msrv::msrv;
use crate::prose;
use crate::rings;
use crate::run::{Part, cargo, ensure_cargo_tool, run, run_parts, say};
use crate::servers::workspace_root;
use crate::tarballs::tarballs;
use crate::test::test;

/// The tests come last, so that their closing lines stand at the end of the output.
///
/// Whether an interface changed more than its version says is checked from the first tag on: until
/// then there is nothing to compare it with.
const PARTS: [Part; 12] = [
    ("formatting", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", || {
        let what = ["--workspace", "--all-targets", "--all-features"];
        run(cargo(&["clippy"]).args(what).args(["--", "-D", "warnings"]))
    }),
    ("rings", rings::check),
    ("lines", lines::count),
    ("prose", prose::check),
    ("packages", tarballs),
    ("features", check_features),
    ("msrv", msrv),
    ("outsiders", check_outsiders),
    ("dependencies", check_dependencies),
    ("documentation", check_documentation),
    ("tests", || test(&[])),
];

/// What the parts are called.
pub(crate) fn part_names() -> [&'static str; PARTS.len()] {
    PARTS.map(|(name, _)| name)
}

/// Runs every check, or those that are named.
pub(crate) fn ci(wanted: &[String]) -> Result<()> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let parts: Vec<Part> = PARTS.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    run_parts(&parts)?;
    say(if wanted.is_empty() { "\nall checks passed" } else { "\nthese checks passed" });
    Ok(())
}

/// Each feature does without the others, and each crate that is published with what it asks of its
/// dependencies itself: not with what its neighbours in the workspace or its tests ask for.
fn check_features() -> Result<()> {
    let workspace = Workspace::members_only()?;
    let published: Vec<&str> = workspace.published().map(|package| &*package.name).collect();
    for package in workspace.members() {
        let name = &*package.name;
        if package.features.is_empty() && !published.contains(&name) {
            continue;
        }
        for feature in once("").chain(package.features.keys().map(String::as_str)) {
            let which = ["--package", name, "--no-default-features", "--features", feature];
            run(cargo(&["clippy"]).args(which).args(["--", "-D", "warnings"]))?;
        }
    }
    Ok(())
}

/// Benchmarks and fuzz targets, which are no members of the workspace: they must follow what they
/// use, and so must their lock files.
fn check_outsiders() -> Result<()> {
    let workspace = Workspace::members_only()?;
    for folder in ["bench", "fuzz"] {
        let manifest = workspace_root().join(folder).join("Cargo.toml");
        let mut command = cargo_beside(&workspace, &manifest, &["clippy", "--locked"])?;
        run(command.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Where the tool isn't installed it is compiled first: a rule that is checked only where somebody
/// happens to have it is none.
fn check_dependencies() -> Result<()> {
    ensure_cargo_tool("deny", "0.20.2")?;
    run(&mut cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]))
}

/// Links of the crates' documentation and of the book lead somewhere, and the examples of a crate with features work
/// with those that are on by default too. With all of them they are run among the tests.
fn check_documentation() -> Result<()> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    book()?;
    for package in Workspace::members_only()?.published() {
        if !package.features.is_empty() {
            run(&mut cargo(&["test", "--doc", "--package", &package.name]))?;
        }
    }
    Ok(())
}
