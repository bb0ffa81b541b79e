//! `cargo xtask ci`: everything a change must pass.

use anyhow::Result;

use crate::run::{Part, cargo, has_cargo_tool, run, run_parts, say};
use crate::test::test;

/// The tests come last, so that their closing lines stand at the end of the output.
const PARTS: [Part; 7] = [
    ("formatting", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", || {
        let what = ["--workspace", "--all-targets", "--all-features"];
        run(cargo(&["clippy"]).args(what).args(["--", "-D", "warnings"]))
    }),
    ("features", check_features),
    ("benchmarks and fuzz targets", check_outsiders),
    ("documentation", || {
        let mut command = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
        run(command.env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("dependencies", check_dependencies),
    ("tests", || test(&[])),
];

/// Runs every check.
pub(crate) fn ci() -> Result<()> {
    run_parts(&PARTS)?;
    say("\nall checks passed");
    Ok(())
}

/// Each feature of a library does without the others.
fn check_features() -> Result<()> {
    let libraries: [(&str, &[&str]); 2] = [
        ("sluicegate", &["", "macros", "redis", "metrics", "watch"]),
        ("sluicegate-tower", &["", "axum", "tonic"]),
    ];
    for (library, features) in libraries {
        for feature in features {
            let which = ["--package", library, "--no-default-features", "--features", feature];
            run(cargo(&["clippy"]).args(which).args(["--", "-D", "warnings"]))?;
        }
    }
    Ok(())
}

/// What is no member of the workspace: it must follow what it uses, and so must its lock file.
fn check_outsiders() -> Result<()> {
    for folder in ["bench", "fuzz"] {
        let manifest = format!("{folder}/Cargo.toml");
        let which = ["--locked", "--manifest-path", &manifest];
        run(cargo(&["clippy"]).args(which).args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// cargo-deny takes minutes to compile, so it is used where it is installed.
fn check_dependencies() -> Result<()> {
    if !has_cargo_tool("deny") {
        say("cargo-deny was not found: licences, bans and sources are NOT CHECKED. To check them:");
        say("  cargo install cargo-deny --locked --version 0.20.2 --root target/tools");
        return Ok(());
    }
    run(&mut cargo(&["deny", "--workspace", "check", "bans", "licenses", "sources"]))
}
