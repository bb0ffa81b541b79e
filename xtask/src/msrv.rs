//! Checks the oldest compiler that the published crates claim to build with: their `rust-version`.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::members::{Package, Workspace};
use crate::run::{cargo_of, run, say};

/// Builds with the oldest supported compiler, if rustup has it.
///
/// Otherwise two checks that need no second compiler replace the build. The lint `incompatible_msrv`
/// checks our use of the standard library, and this function checks that no dependency requires a
/// newer compiler.
pub(crate) fn msrv() -> Result<()> {
    let workspace = Workspace::locked()?;
    let wanted = promise(&workspace)?;
    let too_new = too_new(&workspace, version(&wanted)?)?;
    if !too_new.is_empty() {
        bail!("rust-version is {wanted}, but it is built with {}", too_new.join(", "));
    }
    say(&format!("no dependency of a published crate declares a rust-version above {wanted}"));
    let Some(toolchain) = installed(&wanted) else {
        say(&format!("NOT BUILT with Rust {wanted}: rustup has no such toolchain. What the lint"));
        say("incompatible_msrv can't see (syntax, the compiler's own rules) is NOT CHECKED:");
        say(&format!("  rustup toolchain install {wanted} --profile minimal"));
        return Ok(());
    };
    let mut command = cargo_of(&toolchain, &["check", "--locked", "--all-features"]);
    for package in workspace.published() {
        command.args(["--package", &package.name]);
    }
    run(&mut command)
}

/// Returns the one version that all published crates claim.
fn promise(workspace: &Workspace) -> Result<String> {
    let mut wanted = None;
    for package in workspace.published() {
        let own = package.rust_version.as_ref();
        let own = own.with_context(|| format!("{} has no rust-version", package.name))?;
        if wanted.get_or_insert(own) != &own {
            bail!("{} has another rust-version than the others: {own}", package.name);
        }
    }
    wanted.cloned().context("no crate is published")
}

/// Returns the dependencies that require a newer compiler, each with its required version.
fn too_new(workspace: &Workspace, most: [u32; 3]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for package in workspace.published_with_dependencies() {
        let Package { name, version: its, rust_version: Some(asks), .. } = package else {
            continue;
        };
        if version(asks)? > most {
            found.push(format!("{name} {its}, whose rust-version is {asks}"));
        }
    }
    Ok(found)
}

/// Returns the full name of rustup's toolchain of that version.
fn installed(wanted: &str) -> Option<String> {
    let output = Command::new("rustup").args(["toolchain", "list"]).output().ok()?;
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    named(&list, wanted).map(str::to_owned)
}

/// Finds the toolchain of a version: `1.89` matches any of its patch releases.
fn named<'a>(list: &'a str, wanted: &str) -> Option<&'a str> {
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let mut names = names.filter(|name| {
        let version = name.split('-').next().unwrap_or_default();
        version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    names.next()
}

/// Parses a version: `1.89` is `1.89.0`.
fn version(text: &str) -> Result<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.split('.');
    for (number, part) in numbers.iter_mut().zip(&mut parts) {
        *number = part.parse().with_context(|| format!("`{text}` is no version of Rust"))?;
    }
    if parts.next().is_some() {
        bail!("`{text}` is no version of Rust");
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_newer_compiler_is_named() {
        let text = r#"{"target_directory":"target","workspace_members":["a"],"packages":[
            {"id":"a","name":"a","version":"0.1.0","rust_version":"1.89"},
            {"id":"b","name":"b","version":"2.0.0","rust_version":"1.90"},
            {"id":"c","name":"c","version":"3.0.0","rust_version":"1.89.0"},
            {"id":"d","name":"d","version":"4.0.0"}],
            "resolve":{"nodes":[{"id":"a","deps":[
                {"pkg":"b","dep_kinds":[{"kind":null}]},
                {"pkg":"c","dep_kinds":[{"kind":null}]},
                {"pkg":"d","dep_kinds":[{"kind":null}]}]}]}}"#;
        let workspace: Workspace = serde_json::from_str(text).unwrap();
        let found = too_new(&workspace, version(&promise(&workspace).unwrap()).unwrap()).unwrap();
        assert_eq!(found, ["b 2.0.0, whose rust-version is 1.90"]);
    }

    #[test]
    fn a_toolchain_is_found_by_its_version() {
        let list = "stable-x86_64-unknown-linux-gnu (default)\n1.8.0-x86_64-unknown-linux-gnu\n\
                    1.89.1-x86_64-unknown-linux-gnu (active)\n";
        assert_eq!(named(list, "1.89"), Some("1.89.1-x86_64-unknown-linux-gnu"));
        assert_eq!(named(list, "1.8"), Some("1.8.0-x86_64-unknown-linux-gnu"));
        assert_eq!(named(list, "1.90"), None);
        assert!(version("1.89.0.1").is_err() && version("stable").is_err());
        assert!(version("1.90").unwrap() > version("1.89.2").unwrap());
    }
}
