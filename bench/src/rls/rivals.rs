//! Other rate limit services.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use sluicegate_testkit::servers::tools_folder;

use super::message::{DOMAIN, ENTRIES};
use super::ours::with_variables;
use super::served::{Served, free_address};

/// The version of envoyproxy/ratelimit that is compared: the latest one that Go's proxy has.
const RATELIMIT: &str = "v1.4.1-0.20260122083618-3fb702589d36";

/// A service with its name and version.
pub struct Rival {
    pub served: Served,
    pub version: String,
}

/// Starts the server of Limitador, with a limit for each key of a descriptor, in its memory.
pub fn limitador() -> Result<Rival> {
    const NAME: &str = "limitador-server";
    let program = Some(tools_folder().join(NAME)).filter(|it| it.is_file());
    let program = program.unwrap_or_else(|| NAME.into());
    let version = Command::new(&program).arg("--version").output();
    let version = version.ok().filter(|output| output.status.success()).with_context(|| {
        format!(
            "there is no {NAME}, whose crate isn't published. Build it from the repository \
             Kuadrant/limitador with `cargo build --release -p {NAME}`. Put the program into \
             target/tools/bin or on PATH"
        )
    })?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let served = Served::start(|address, folder| {
        let mut limits = String::new();
        for (index, (key, _)) in ENTRIES.iter().enumerate() {
            writeln!(
                limits,
                "- {{namespace: {DOMAIN}, max_value: 1000000000, seconds: 3600, conditions: [], \
                 variables: [\"descriptors[{index}].{key}\"]}}"
            )?;
        }
        let file = folder.join("limits.yaml");
        fs::write(&file, limits)?;
        let http = free_address()?;
        let mut command = Command::new(program);
        command
            .args(["--rls-ip", &address.ip().to_string()])
            .args(["--rls-port", &address.port().to_string()])
            .args(["--http-ip", &http.ip().to_string()])
            .args(["--http-port", &http.port().to_string()])
            .arg(file)
            .arg("memory");
        Ok(command)
    })?;
    Ok(Rival { served, version })
}

/// Starts envoyproxy/ratelimit with the rules of `sluicegate envoy`, on a Redis server.
pub fn ratelimit(redis: SocketAddr) -> Result<Rival> {
    let program = built_ratelimit()?;
    let served = Served::start(|address, folder| {
        let mut command = Command::new(program);
        with_variables(&mut command, address, folder, Some(redis))?;
        Ok(command)
    })?;
    let version = format!("envoyproxy/ratelimit {RATELIMIT}");
    Ok(Rival { served, version })
}

/// Returns the program, which Go builds from its module the first time.
fn built_ratelimit() -> Result<PathBuf> {
    let folder = tools_folder().join(format!("ratelimit-{RATELIMIT}"));
    let program = folder.join("service_cmd");
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("    building envoyproxy/ratelimit");
    fs::create_dir_all(&folder)?;
    let module = format!("github.com/envoyproxy/ratelimit/src/service_cmd@{RATELIMIT}");
    let built = Command::new("go").args(["install", &module]).env("GOBIN", &folder).output();
    let built = built.context("envoyproxy/ratelimit is built by Go: install it")?;
    let message = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "Go can't build envoyproxy/ratelimit: {}", message.trim());
    Ok(program)
}
