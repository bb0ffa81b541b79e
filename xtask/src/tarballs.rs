//! Builds every published crate from its package alone, as a registry would get it.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::beside::cargo_beside;
use crate::members::Workspace;
use crate::run::{cargo, program, run};
use crate::servers::workspace_root;

/// Files of each package in addition to its sources: for its page, and because the licences require
/// them.
const BESIDE: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packages every published crate, and compiles them all from their packages.
///
/// Cargo would verify the packages itself, one after another. Outside of a workspace, each is
/// compiled in another profile and with other features of the dependencies, so earlier builds can't
/// be reused. That takes three minutes on two cores, against less than one here.
///
/// Instead, the unpacked packages form a workspace of their own. It is checked with every feature, in
/// the same profile and folder as everything else. Its faults are files that aren't packaged, and
/// versions or features that a manifest lacks. They show before code is generated, so a check is
/// enough. Another part checks that each crate compiles with the features that it requests itself.
pub(crate) fn tarballs() -> Result<()> {
    let workspace = Workspace::members_only()?;
    for package in workspace.published() {
        if let Some(what) = package.lacking().first() {
            bail!("the manifest of {} has no {what}", package.name);
        }
    }
    // Fetch all that is locked, so that the rest needs no network. Our crates might not be on the
    // registry yet, and offline cargo doesn't look for them.
    run(&mut cargo(&["fetch", "--locked"]))?;
    let mut command = cargo(&["package", "--offline", "--no-verify"]);
    // A change is checked before it is committed.
    command.arg("--allow-dirty");
    for package in workspace.published() {
        command.args(["--package", &package.name]);
    }
    run(&mut command)?;

    let packages = workspace.target_directory.join("package");
    let folder = workspace.target_directory.join("from-packages");
    let mut names = Vec::new();
    empty(&folder)?;
    for package in workspace.published() {
        let stem = format!("{}-{}", package.name, package.version);
        unpack(&packages.join(format!("{stem}.crate")), &folder)?;
        if let Some(missing) = BESIDE.iter().find(|file| !folder.join(&stem).join(file).is_file()) {
            bail!("the package of {} has no {missing}", package.name);
        }
        names.push((&*package.name, stem));
    }
    write(&folder.join("Cargo.toml"), &manifest(&names))?;
    write(&folder.join("Cargo.lock"), &read(&workspace_root().join("Cargo.lock"))?)?;
    let what = ["check", "--offline", "--workspace", "--all-features"];
    run(&mut cargo_beside(&workspace, &folder.join("Cargo.toml"), &what)?)
}

/// Returns the manifest of a workspace of the unpacked packages, each of which takes the others from
/// here.
fn manifest(names: &[(&str, String)]) -> String {
    let folders: Vec<String> = names.iter().map(|(_, folder)| format!("\"{folder}\"")).collect();
    let paths = names.iter().map(|(name, folder)| format!("{name} = {{ path = \"{folder}\" }}\n"));
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n{}",
        folders.join(", "),
        paths.collect::<String>(),
    )
}

fn empty(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("can't empty {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))
}

fn unpack(tarball: &Path, folder: &Path) -> Result<()> {
    // The files of a package all have one old date, so cargo would take a new file for the last one.
    run(program(Path::new("tar")).arg("-xmzf").arg(tarball).arg("-C").arg(folder))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}
