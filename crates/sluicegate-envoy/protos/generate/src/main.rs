//! Writes the Rust code of the messages and services to `src/protos/`.

use std::error::Error;
use std::fs;
use std::path::Path;

/// The files with services that are served, relative to the folder of the files.
const SERVED: [&str; 3] = [
    "envoy/service/auth/v3/external_auth.proto",
    "envoy/service/rate_limit_quota/v3/rlqs.proto",
    "envoy/service/ratelimit/v3/rls.proto",
];
/// The files with services that are only called, and with the messages that they transport.
const CALLED: [&str; 2] =
    ["envoy/service/discovery/v3/ads.proto", "ratelimit/config/ratelimit/v3/rls_conf.proto"];

/// Returns the code without the remarks on names of enum values, which say nothing about the messages.
fn without_remarks(code: &str) -> String {
    let is_remark = |line: &&str| {
        let words = ["are not transformed in any way", "does not change) and safe for"];
        words.iter().any(|words| line.contains(words))
    };
    code.lines().filter(|line| !is_remark(line)).flat_map(|line| [line, "\n"]).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let code = folder.join("../src/protos");
    fs::create_dir_all(&code)?;
    let mut compiler = protox::Compiler::new([&folder])?;
    let all = SERVED.iter().chain(&CALLED);
    compiler.include_imports(true).include_source_info(true).open_files(all)?;
    let described = compiler.file_descriptor_set();
    tonic_prost_build::configure()
        .build_client(true)
        .build_transport(false)
        // The ids of buckets are keys of maps.
        .btree_map(".envoy.service.rate_limit_quota")
        .codec_path("crate::service::codec::SmallCodec")
        .out_dir(&code)
        .compile_fds(described)?;
    for file in fs::read_dir(&code)? {
        let path = file?.path();
        if path.extension().is_some_and(|it| it == "rs") {
            fs::write(&path, without_remarks(&fs::read_to_string(&path)?))?;
        }
    }
    // Reflection describes only what is served, without comments.
    let mut compiler = protox::Compiler::new([&folder])?;
    compiler.include_imports(true).open_files(SERVED)?;
    fs::write(code.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    Ok(())
}
