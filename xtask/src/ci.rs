//! `cargo xtask ci`: every check that a change must pass.

use std::iter::once;

use anyhow::Result;

use crate::beside::cargo_beside;
use crate::book::book;
use crate::clients::clients;
use crate::deploy;
use crate::lines;
use crate::members::Workspace;
use crate::msrv::msrv;
use crate::prose;
use crate::rings;
use crate::run::{Part, cargo, ensure_cargo_tool, run, run_parts, say};
use crate::servers::workspace_root;
use crate::tarballs::tarballs;
use crate::test::test;

/// The parts of the command. The tests come last, so that their final lines are at the end of the
/// output.
///
/// The versions of interfaces are checked from the first tag on. Until then there is no version to compare
/// the interfaces with.
const PARTS: [Part; 14] = [
    ("formatting", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", || {
        let what = ["--workspace", "--all-targets", "--all-features"];
        run(cargo(&["clippy"]).args(what).args(["--", "-D", "warnings"]))
    }),
    ("rings", rings::check),
    ("lines", lines::count),
    ("prose", prose::check),
    ("packages", tarballs),
    ("deploy", deploy::check),
    ("features", check_features),
    ("msrv", msrv),
    ("outsiders", check_outsiders),
    ("dependencies", check_dependencies),
    ("documentation", check_documentation),
    ("clients", clients),
    ("tests", || test(&[])),
];

/// Returns the names of the parts.
pub(crate) fn part_names() -> [&'static str; PARTS.len()] {
    PARTS.map(|(name, _)| name)
}

/// Runs every check, or the named ones.
pub(crate) fn ci(wanted: &[String]) -> Result<()> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let parts: Vec<Part> = PARTS.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    run_parts(&parts)?;
    say(if wanted.is_empty() { "\nall checks passed" } else { "\nthese checks passed" });
    Ok(())
}

/// Checks each feature without the others, and each published crate with only the features that it
/// requests of its dependencies itself. Features that its neighbours in the workspace or its tests
/// request don't count.
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

/// Checks the benchmarks and fuzz targets, which aren't members of the workspace. They must compile
/// with the crates that they use, and their lock files must be up to date.
fn check_outsiders() -> Result<()> {
    let workspace = Workspace::members_only()?;
    for folder in ["bench", "fuzz"] {
        let manifest = workspace_root().join(folder).join("Cargo.toml");
        let mut command = cargo_beside(&workspace, &manifest, &["clippy", "--locked"])?;
        run(command.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Checks the dependencies, after compiling the tool if it isn't installed. Otherwise the rules would
/// be checked only on machines that happen to have it.
fn check_dependencies() -> Result<()> {
    ensure_cargo_tool("deny", "0.20.2")?;
    run(&mut cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]))
}

/// Checks that the links of the crates' documentation and of the book work. Also runs the examples of
/// `sluicegate` with only the default features on. The tests run all examples with all features.
fn check_documentation() -> Result<()> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    book()?;
    run(&mut cargo(&["test", "--doc", "--package", "sluicegate"]))
}
