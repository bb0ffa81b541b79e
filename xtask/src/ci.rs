//! `cargo xtask ci`: every check that a change must pass.

use std::iter::once;
use std::path::Path;
use std::process::Command;
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
use crate::run::{Part, cargo, ensure_cargo_tool, program, run, run_beside, run_parts, say};
use crate::servers::workspace_root;
use crate::setup::ensure_servers;
use crate::tarballs::tarballs;
use crate::test::test;

/// The parts that need Rust alone.
///
/// The versions of interfaces are checked from the first tag on. Until then there is no version to compare
/// the interfaces with.
const WITH_RUST: [Part; 6] = [
    ("formatting", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", || {
        let what = ["--workspace", "--all-targets", "--all-features"];
        run(cargo(&["clippy"]).args(what).args(["--", "-D", "warnings"]))
    }),
    ("rings", rings::check),
    ("lines", lines::count),
    ("prose", prose::check),
    ("msrv", msrv),
];

/// The parts that need other tools.
const WITH_TOOLS: [Part; 4] = [
    ("deploy", deploy::check),
    ("dependencies", check_dependencies),
    ("documentation", check_documentation),
    ("clients", clients),
];

/// The parts that compile other combinations of the crates, while the tests run.
const ASIDE: [Part; 3] =
    [("packages", tarballs), ("outsiders", check_outsiders), ("features", check_features)];

/// The tests come last, so that their final lines are at the end of the output.
const TESTS: Part = ("tests", || test(&[]));

/// Returns the names of the parts.
pub(crate) fn part_names() -> impl Iterator<Item = &'static str> {
    parts().map(|(name, _)| name)
}

fn parts() -> impl Iterator<Item = Part> {
    WITH_RUST.into_iter().chain(WITH_TOOLS).chain(ASIDE).chain([TESTS])
}

/// Runs every check, or the named ones.
pub(crate) fn ci(wanted: &[String]) -> Result<()> {
    let failed = match wanted {
        [] => run_all(),
        _ => run_parts(parts().filter(|(name, _)| wanted.iter().any(|word| word == name))),
    };
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    say(if wanted.is_empty() { "\nall checks passed" } else { "\nthese checks passed" });
    Ok(())
}

/// Runs every check, and returns the names of those that failed.
///
/// The first parts mostly check one crate after another, and leave a core free. So the tools are compiled at the same time.
fn run_all() -> Vec<&'static str> {
    let mut failed = thread::scope(|scope| {
        scope.spawn(get_tools);
        run_parts(WITH_RUST.into_iter())
    });
    failed.extend(run_parts(WITH_TOOLS.into_iter()));
    let (tests, aside) = run_beside(&mut in_idle_time(), || run_parts([TESTS].into_iter()));
    failed.extend(tests);
    if let Err(error) = aside {
        say(&format!("while the tests ran: {error:#}"));
        failed.push("a part that runs while the tests do");
    }
    failed
}

/// Returns the command that runs the parts of [`ASIDE`] when a processor is idle. Half of the tests wait for servers.
fn in_idle_time() -> Command {
    let mut command = program(Path::new("nice"));
    command.args(["-n", "19", "cargo", "xtask", "ci"]).args(ASIDE.map(|(name, _)| name));
    command
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
