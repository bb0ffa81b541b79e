//! Installs redis-py, a client in Python, from its wheel.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::wheel::Wheel;

/// The wheel has no native code, so it is one for all machines.
const HASH: &str = "a4fe1aac3d3b3cc791d4b3d5931c5a956045dc951ee74d1c913ee3ac4d2ee9fb";

const WHEEL: Wheel =
    Wheel { package: "redis", version: "8.1.0", hashes: [HASH, HASH], find: find_package };

/// Unpacks the wheel under `target/tools`, where the tests look for it.
pub(crate) fn fetch() -> Result<()> {
    WHEEL.unpack().map(drop)
}

fn find_package(folder: &Path) -> Result<PathBuf> {
    let package = folder.join("redis/__init__.py");
    if package.is_file() { Ok(package) } else { bail!("no redis-py at {}", package.display()) }
}
