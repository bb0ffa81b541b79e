//! `cargo xtask ci`: every check that a change must pass.

use std::iter::once;
use std::thread;

use anyhow::{Result, bail};

use crate::beside::cargo_beside;
use crate::book::{book, ensure_mdbook};
use crate::clients::clients;
use crate::deploy;
use crate::lines;
use crate::members::Workspace;
use crate::msrv::msrv;
use crate::prose;
use crate::rings;
use crate::run::{Part, cargo, ensure_cargo_tool, run, run_parts, say};
use crate::servers::workspace_root;
use crate::setup::ensure_servers;
use crate::tarballs::tarballs;
use crate::test::test;

/// The parts that need Rust alone.
///
/// The versions of interfaces are checked from the first tag on. Until then there is no version to compare
/// the interfaces with.
const WITH_RUST: [Part; 9] = [
    ("formatting", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", || {
        let what = ["--workspace", "--all-targets", "--all-features"];
        run(cargo(&["clippy"]).args(what).args(["--", "-D", "warnings"]))
    }),
    ("rings", rings::check),
    ("lines", lines::count),
    ("prose", prose::check),
    ("packages", tarballs),
    ("outsiders", check_outsiders),
    ("msrv", msrv),
    ("features", check_features),
];

/// The parts that need other tools. The tests come last, so that their final lines are at the end of the
/// output.
const WITH_TOOLS: [Part; 5] = [
    ("deploy", deploy::check),
    ("dependencies", check_dependencies),
    ("documentation", check_documentation),
    ("clients", clients),
    ("tests", || test(&[])),
];

/// Returns the names of the parts.
pub(crate) fn part_names() -> impl Iterator<Item = &'static str> {
    WITH_RUST.iter().chain(&WITH_TOOLS).map(|(name, _)| *name)
}

/// Runs every check, or the named ones.
///
/// The first parts mostly check one crate after another, and leave a core free. So the tools are compiled at the same time.
pub(crate) fn ci(wanted: &[String]) -> Result<()> {
    let is_wanted = |(name, _): &Part| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let mut failed = thread::scope(|scope| {
        if wanted.is_empty() {
            scope.spawn(get_tools);
        }
        run_parts(WITH_RUST.into_iter().filter(is_wanted))
    });
    failed.extend(run_parts(WITH_TOOLS.into_iter().filter(is_wanted)));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    say(if wanted.is_empty() { "\nall checks passed" } else { "\nthese checks passed" });
    Ok(())
}

/// Installs what the parts of [`WITH_TOOLS`] need. Each of them tries again what could not be had, and reports it.
fn get_tools() {
    let tools: [Part; 4] = [
        ("cargo-deny", ensure_deny),
        ("mdbook", ensure_mdbook),
        ("helm", deploy::fetch),
        ("a server", ensure_servers),
    ];
    for (name, get) in tools {
        if let Err(error) = get() {
            say(&format!("{name} could not be had: {error:#}"));
        }
    }
}

/// Checks each published crate with each of its features alone, and with none. Features that its neighbours in the
/// workspace or its tests request don't count.
fn check_features() -> Result<()> {
    for package in Workspace::members_only()?.published() {
        for feature in once("").chain(package.sets_of_features()) {
            let which =
                ["--package", &*package.name, "--no-default-features", "--features", feature];
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
    ensure_deny()?;
    run(&mut cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]))
}

fn ensure_deny() -> Result<()> {
    ensure_cargo_tool("deny", "0.20.2")
}

/// Checks that the links of the crates' documentation and of the book work. The tests run the examples.
fn check_documentation() -> Result<()> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
    run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    book()
}
