//! The server of Limitador, which has Envoy's rate limit service and an HTTP interface.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use sluicegate_testkit::servers::tools_folder;

use crate::program::install;
use crate::served::free_address;

/// The namespace of the limits.
pub const NAMESPACE: &str = "bench";

const NAME: &str = "limitador-server";
const REPOSITORY: &str = "https://github.com/Kuadrant/limitador";
const VERSION: &str = "2.4.0";

/// The server's program.
pub struct Program {
    path: PathBuf,
    pub version: String,
}

/// Returns the program, which cargo builds the first time. This needs `protoc`, and `libclang` for its disk store: those
/// of `cargo xtask setup`, or else the system's.
pub fn program() -> Result<Program> {
    let tag = format!("v{VERSION}");
    let path = install(NAME, VERSION, &["--git", REPOSITORY, "--tag", &tag], &build_tools())?;
    let output = Command::new(&path).arg("--version").output().context("can't run Limitador")?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Program { path, version })
}

/// Returns the variables that name the tools of `cargo xtask setup`.
fn build_tools() -> Vec<(&'static str, PathBuf)> {
    let tools = tools_folder();
    let mut variables = Vec::new();
    let protoc = tools.join("protoc");
    if protoc.is_file() {
        variables.push(("PROTOC", protoc));
    }
    if tools.join("libclang.so").is_file() {
        variables.push(("LIBCLANG_PATH", tools));
        // The library alone has no headers of the compiler.
        if let Some(headers) = compiler_headers() {
            variables.push(("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{headers}").into()));
        }
    }
    variables
}

fn compiler_headers() -> Option<String> {
    let output = Command::new("gcc").arg("-print-file-name=include").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the command that starts the server with a limit for each of these keys of a descriptor, in its memory.
pub fn command(
    program: &Program,
    folder: &Path,
    keys: &[&str],
    grpc: Option<SocketAddr>,
    http: Option<SocketAddr>,
) -> Result<Command> {
    let mut limits = String::new();
    for (index, key) in keys.iter().enumerate() {
        writeln!(
            limits,
            "- {{namespace: {NAMESPACE}, max_value: 1000000000, seconds: 3600, conditions: [], \
             variables: [\"descriptors[{index}].{key}\"]}}"
        )?;
    }
    let file = folder.join("limits.yaml");
    fs::write(&file, limits)?;
    let mut command = Command::new(&program.path);
    for (name, address) in [("rls", grpc), ("http", http)] {
        let address = address.map_or_else(free_address, Ok)?;
        command.args([format!("--{name}-ip"), address.ip().to_string()]);
        command.args([format!("--{name}-port"), address.port().to_string()]);
    }
    command.arg(file).arg("memory");
    Ok(command)
}
