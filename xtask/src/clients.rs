//! `cargo xtask clients`: Redis clients of other languages, against the service.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::files::files;
use crate::members::Workspace;
use crate::run::{cargo, find_program, program, run, say};
use crate::servers::workspace_root;

/// A program of `examples/clients`, which ends with an error if the service does.
struct Client {
    name: &'static str,
    /// Its folder in `examples/clients`.
    folder: &'static str,
    /// The program that must be installed.
    tool: &'static str,
    /// Arguments of the tool that fetch what the client needs; empty if it does so by itself.
    prepare: &'static [&'static str],
    /// The command. `ADDRESS` is that of the service.
    command: &'static [&'static str],
}

const CLIENTS: [Client; 6] = [
    Client::go("go-redis", &["go", "run", "./go-redis", "ADDRESS"]),
    Client::go("rueidis", &["go", "run", "./rueidis", "ADDRESS"]),
    Client::node("ioredis", &["node", "ioredis.mjs", "ADDRESS"]),
    Client::node("node-redis", &["node", "node-redis.mjs", "ADDRESS"]),
    Client::java(
        "jedis",
        &[
            "mvn",
            "-q",
            "-B",
            "compile",
            "exec:java",
            "-Dexec.mainClass=JedisClient",
            "-Dexec.args=ADDRESS",
        ],
    ),
    Client::java(
        "lettuce",
        &[
            "mvn",
            "-q",
            "-B",
            "compile",
            "exec:java",
            "-Dexec.mainClass=LettuceClient",
            "-Dexec.args=ADDRESS",
        ],
    ),
];

impl Client {
    const fn go(name: &'static str, command: &'static [&'static str]) -> Self {
        Self { name, folder: "go", tool: "go", prepare: &[], command }
    }

    const fn node(name: &'static str, command: &'static [&'static str]) -> Self {
        let prepare = &["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
        Self { name, folder: "node", tool: "npm", prepare, command }
    }

    const fn java(name: &'static str, command: &'static [&'static str]) -> Self {
        Self { name, folder: "java", tool: "mvn", prepare: &[], command }
    }

    fn run(&self, address: &str) -> Result<()> {
        let folder = self.copy()?;
        if !self.prepare.is_empty() {
            run(bounded(self.tool).args(self.prepare).current_dir(&folder))?;
        }
        let words = self.command.iter().map(|word| word.replace("ADDRESS", address));
        let [tool, words @ ..] = &*words.collect::<Vec<_>>() else { bail!("no command") };
        run(bounded(tool).args(words).current_dir(&folder))
    }

    /// Copies the folder into `target`, so that the tools leave no files in the sources.
    fn copy(&self) -> Result<PathBuf> {
        let source = workspace_root().join("examples/clients").join(self.folder);
        let copy = workspace_root().join("target/clients").join(self.folder);
        for file in files(&source, Path::new(""))? {
            let target = copy.join(&file);
            fs::create_dir_all(target.parent().unwrap_or(&copy))?;
            fs::copy(source.join(&file), &target)
                .with_context(|| format!("can't write {}", target.display()))?;
        }
        Ok(copy)
    }
}

/// Runs every client whose toolchain is installed, and names the others.
pub(crate) fn clients() -> Result<()> {
    // The graph of the tests, so that they find everything compiled.
    run(&mut cargo(&["test", "--workspace", "--all-features", "--no-run", "--test", "binary"]))?;
    let service = Service::start()?;
    let mut failed = Vec::new();
    for client in &CLIENTS {
        let Client { name, tool, .. } = client;
        if find_program(tool).is_none() {
            say(&format!("NOT TESTED with {name}: there is no `{tool}`"));
        } else if let Err(error) = client.run(&service.address) {
            say(&format!("{name}: {error:#}"));
            failed.push(*name);
        } else {
            say(&format!("{name}: ok"));
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("clients failed: {}", failed.join(", ")) }
}

/// Returns the command of a tool, which is ended after two minutes if the system has a program for that.
fn bounded(tool: &str) -> Command {
    match find_program("timeout") {
        Some(timeout) => {
            let mut command = program(&timeout);
            command.args(["120", tool]);
            command
        }
        None => program(Path::new(tool)),
    }
}

/// A service in Redis' protocol. It is stopped when dropped.
struct Service {
    process: Child,
    address: String,
}

impl Service {
    fn start() -> Result<Self> {
        let binary = Workspace::members_only()?.target_directory.join("debug/sluicegate");
        let config = workspace_root().join("examples/clients/limits.yaml");
        let mut command = Command::new(&binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--config"]);
        command.arg(config).env_remove("SLUICEGATE_ADMIN_TOKEN");
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = command.spawn().with_context(|| format!("can't run {}", binary.display()))?;
        let mut service = Self { process, address: String::new() };
        let errors = service.process.stderr.take().context("it has standard error")?;
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        let address =
            lines.find_map(|line| Some(line.strip_prefix("listening: resp ")?.to_owned()));
        service.address = address.context("the service doesn't listen")?;
        // Read on, so that the service never waits for a reader of its log.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
