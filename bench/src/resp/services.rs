//! Servers of Redis' protocol: ours, Redis, and other limiters.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use sluicegate_testkit::servers::available;

use super::load::Load;
use crate::program::build;
use crate::rivals;
use crate::served::Served;

/// A command about a random key.
type Words = &'static [&'static str];

/// A check by a limit of the file.
pub const CHECK: Words = &["SG.CHECK", "demo", KEY];
/// A check by the numbers in the command, which have the values of the limit in the file.
pub const REDIS_CELL: Words = &["CL.THROTTLE", KEY, "999999", "1000000", "1"];
pub const THROTTLECRAB: Words = &["THROTTLE", KEY, "1000000", "1000000", "1"];

const SET: Words = &["SET", KEY, "x"];
const GET: Words = &["GET", KEY];
/// A key whose number redis-benchmark replaces.
const KEY: &str = "tenant:42:user:__rand_int__";

/// A server, and the command that is sent to it.
pub struct Side {
    pub served: Served,
    /// The command that gives a key its first value; the same one for a limiter.
    first: Words,
    pub command: Words,
    /// `None` if it doesn't limit.
    pub answers: Option<Answers>,
}

/// The beginnings of a limiter's answers.
pub struct Answers {
    pub allowed: &'static str,
    pub denied: &'static str,
}

/// The other side of a comparison.
pub struct Other {
    pub side: Side,
    pub name: String,
}

impl Side {
    fn limiter(served: Served, command: Words) -> Self {
        let [limited, let_in] = ["*5\r\n:1\r\n", "*5\r\n:0\r\n"];
        let answers = match command[0] {
            "CL.THROTTLE" => Answers { allowed: let_in, denied: limited },
            "THROTTLE" => Answers { allowed: limited, denied: let_in },
            _ => Answers { allowed: "*4\r\n:1\r\n", denied: "*4\r\n:0\r\n" },
        };
        Self { served, first: command, command, answers: Some(answers) }
    }

    /// Gives every key a state.
    pub fn fill(&self) -> Result<()> {
        Load::ALL_KEYS.send(self.served.address, self.first)
    }

    /// Sends commands, and returns the processor time of the server for one, in µs.
    pub fn run(&self, load: Load) -> Result<f64> {
        let before = self.served.nanos()?;
        load.send(self.served.address, self.command)?;
        Ok((self.served.nanos()? - before) / load.commands as f64 / 1e3)
    }
}

/// Starts `sluicegate serve` in memory.
pub fn ours(command: Words) -> Result<Side> {
    let program = build(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let served = Served::start(|address, folder| {
        let config = folder.join("limits.yaml");
        let limits = "{demo: {policies: [token_bucket 1000000/s burst 1000000]}}";
        fs::write(&config, format!("store: \"memory:\"\nlimits: {limits}\n"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--resp", &address.to_string()]);
        command.arg("--config").arg(config);
        Ok(command)
    })?;
    Ok(Side::limiter(served, command))
}

/// Starts a Redis server that reads keys.
pub fn redis() -> Result<Other> {
    let (served, name) = redis_server(None)?;
    Ok(Other { side: Side { served, first: SET, command: GET, answers: None }, name })
}

/// Starts a Redis server with the module redis-cell.
pub fn redis_cell() -> Result<Other> {
    let module = rivals::redis_cell()?;
    let (served, name) = redis_server(Some(&module))?;
    let name = format!("redis-cell {} in {name}", rivals::REDIS_CELL);
    Ok(Other { side: Side::limiter(served, REDIS_CELL), name })
}

/// Starts throttlecrab's server, whose only protocol is that of Redis.
pub fn throttlecrab() -> Result<Other> {
    let program = rivals::throttlecrab()?;
    let served = Served::start(|address, _| {
        let mut command = Command::new(program);
        command.args(["--redis", "--redis-host", &address.ip().to_string()]);
        command.args(["--redis-port", &address.port().to_string(), "--log-level", "warn"]);
        Ok(command)
    })?;
    let name = format!("throttlecrab {}", rivals::THROTTLECRAB);
    Ok(Other { side: Side::limiter(served, THROTTLECRAB), name })
}

/// Starts a Redis server that writes no files, and returns its name.
fn redis_server(module: Option<&Path>) -> Result<(Served, String)> {
    let binary = available()?.into_iter().next().context("there is no Redis server")?;
    let served = Served::start(|address, folder| {
        let mut command = Command::new(binary.path());
        command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(folder);
        if let Some(module) = module {
            command.arg("--loadmodule").arg(module);
        }
        Ok(command)
    })?;
    Ok((served, format!("{} {}", binary.product(), binary.version())))
}
