//! Other rate limit services.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use sluicegate_testkit::servers::tools_folder;

use super::message::ENTRIES;
use super::ours::with_variables;
use crate::limitador;
use crate::served::Served;

/// The version of envoyproxy/ratelimit that is compared: the latest one that Go's proxy has.
const RATELIMIT: &str = "v1.4.1-0.20260122083618-3fb702589d36";

/// A service with its name and version.
pub struct Rival {
    pub served: Served,
    pub version: String,
}

/// Starts the server of Limitador, with a limit for the key of each descriptor of a call, in its memory. It answers calls
/// that lack the descriptor of a limit with an error.
pub fn limitador(descriptors: usize) -> Result<Rival> {
    let program = limitador::program()?;
    let keys = ENTRIES.map(|(key, _)| key);
    let served = Served::start(|address, folder| {
        limitador::command(&program, folder, &keys[..descriptors], Some(address), None)
    })?;
    Ok(Rival { served, version: program.version })
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
