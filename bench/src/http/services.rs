//! Our service, and the empty one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::answer::Answer;
use crate::program::{build, build_own};
use crate::served::Served;

/// The path of a check.
pub const PATH: &str = "/v1/check";

/// Starts `sluicegate serve` with one limit, in the store at a URL.
pub fn ours(store: &str) -> Result<Served> {
    ours_with(store, |_| String::new())
}

/// Starts `sluicegate serve` like [`ours`], with more settings, which may name files in a folder.
pub fn ours_with(store: &str, settings: impl FnOnce(&Path) -> String) -> Result<Served> {
    ours_by(&build(&root())?, store, settings)
}

/// Starts `sluicegate serve` like [`ours_with`], by another build of the program.
pub fn ours_by(
    program: &Path,
    store: &str,
    settings: impl FnOnce(&Path) -> String,
) -> Result<Served> {
    Served::start(|address, folder| {
        let config = folder.join("limits.yaml");
        let limits = "{demo: {policies: [token_bucket 1000000/s burst 1000000], deadline: 5s}}";
        let settings = settings(folder);
        fs::write(&config, format!("store: \"{store}\"\nlimits: {limits}\n{settings}\n"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", &address.to_string(), "--config"]).arg(config);
        Ok(command)
    })
}

/// Returns the folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Starts a server that reads each request, decides nothing, and always gives this answer.
pub fn empty(answer: Answer<'_>) -> Result<Served> {
    let program = build_own("empty-http")?;
    Served::start(|address, _| {
        let mut command = Command::new(program);
        command.args([&address.to_string(), PATH, &*String::from_utf8_lossy(answer.body)]);
        command.args(answer.fields().flat_map(|(name, value)| [name, value]));
        Ok(command)
    })
}

/// Returns a request to our service about a key.
pub fn request(key: &str, cost: u64) -> Vec<u8> {
    post(PATH, &format!(r#"{{"limit":"demo","key":"{key}","cost":{cost}}}"#))
}

/// Returns a request with a JSON body.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {}",
        body.len()
    );
    format!("{head}\r\n\r\n{body}").into()
}
