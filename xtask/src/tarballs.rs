//! What a registry would get: every published crate as a package, built from the package alone.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::beside::cargo_beside;
use crate::members::Workspace;
use crate::run::{cargo, program, run};
use crate::servers::workspace_root;

/// What each package has beside its sources: for its page, and because the licences ask for it.
const BESIDE: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packages every published crate, and compiles them all from their packages.
///
/// Cargo would verify the packages itself, one after another: as nobody's workspace, that is in
/// another profile and with other features of the dependencies at each, so that nothing compiled
/// before is of use (three minutes on two cores, against less than one). Instead the unpacked
/// packages are made a workspace of their own, which is checked with every feature in the same
/// profile and folder as everything else. What is looked for here (a file that isn't packaged, a
/// version or feature that a manifest lacks) shows before code is generated, so a check is enough.
/// That each crate does with the features it asks for itself is seen where features are checked.
pub(crate) fn tarballs() -> Result<()> {
    let workspace = Workspace::members_only()?;
    for package in workspace.published() {
        if let Some(what) = package.lacking().first() {
            bail!("the manifest of {} has no {what}", package.name);
        }
    }
    // All that is locked, so that the rest needs no network. None of our crates may be on the
    // registry yet, and offline cargo doesn't go to look for them.
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

/// A workspace of the unpacked packages, each of which takes the others from here.
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
    // Files of a package all have one old date, by which cargo would take a new one for the last.
    run(program(Path::new("tar")).arg("-xmzf").arg(tarball).arg("-C").arg(folder))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
}
