//! Installs redis-py, a client in Python, from its wheel.

use anyhow::Result;

use crate::wheel::{Wheel, file_in};

/// The wheel has no native code, so it is one for all machines.
const HASH: &str = "a4fe1aac3d3b3cc791d4b3d5931c5a956045dc951ee74d1c913ee3ac4d2ee9fb";

const WHEEL: Wheel = Wheel {
    package: "redis",
    version: "8.1.0",
    hashes: [HASH, HASH],
    find: |folder| file_in(folder, "redis/__init__.py"),
};

/// Unpacks the wheel under `target/tools`, where the tests look for it.
pub(crate) fn fetch() -> Result<()> {
    WHEEL.unpack().map(drop)
}
