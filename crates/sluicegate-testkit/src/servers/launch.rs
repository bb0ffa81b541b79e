//! The start of a server process.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::binary::ServerBinary;
use super::error::ServerError;
use super::process::{PATIENCE, Process};
use super::resp::{Connection, Reply};

/// The address at which the kit reaches a server.
#[derive(Debug, Clone)]
pub(super) enum Address {
    Port(SocketAddr),
    /// A path in the file system.
    Socket(PathBuf),
}

/// The parameters of each start of a server's process.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) binary: ServerBinary,
    pub(super) address: Address,
    pub(super) folder: PathBuf,
    /// Environment variables, as `NAME=value`.
    pub(super) environment: Vec<String>,
    /// The kit's own options, before those of the test.
    pub(super) fixed: Vec<String>,
    pub(super) options: Vec<String>,
    /// Whether a server that is still reading its data counts as started.
    pub(super) while_loading: bool,
}

impl Address {
    /// Opens a connection on which each step may take up to `patience`.
    pub(super) fn connect(&self, patience: Duration) -> std::io::Result<Connection> {
        match self {
            Self::Port(address) => Connection::open_at(*address, patience),
            Self::Socket(path) => Connection::open_socket(path, patience),
        }
    }
}

impl Launch {
    /// Starts the program and waits until its log and an answer show that it accepts connections.
    pub(super) fn run(&self) -> Result<Process, ServerError> {
        let folder_text = self.folder.to_string_lossy();
        let mut all: Vec<String> = Vec::new();
        let is_sentinel = self.options.iter().any(|option| option == "--sentinel");
        if is_sentinel {
            // A sentinel needs a file for its state, which it reads when it starts again.
            let file = self.folder.join("sentinel.conf");
            if !file.exists() {
                fs::write(&file, "").map_err(ServerError::io("write the sentinel's file"))?;
            }
            all.push(file.to_string_lossy().into_owned());
        }
        let words = ["--dir", &folder_text, "--save", ""];
        all.extend(words.map(str::to_owned));
        all.extend(["--appendonly", "no"].map(str::to_owned));
        all.extend_from_slice(&self.fixed);
        all.extend_from_slice(&self.options);
        let process = if self.environment.is_empty() {
            Process::spawn(&self.folder, self.binary.path(), &all)?
        } else {
            // The variables are only for the server, not for its supervisor.
            let mut words = self.environment.clone();
            words.push(self.binary.path().to_string_lossy().into_owned());
            words.append(&mut all);
            Process::spawn(&self.folder, Path::new("/usr/bin/env"), &words)?
        };
        self.await_ready(process)
    }

    pub(super) fn log(&self) -> String {
        let log = fs::read(self.folder.join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn await_ready(&self, process: Process) -> Result<Process, ServerError> {
        let failed = |what: String| ServerError::Start {
            why: format!("{} at {:?} {what}", self.binary, self.address),
            log: self.log(),
        };
        // Waiting for the server's end paces the polling. It needs no clock and no sleep, and
        // detects immediately if the server exits.
        let step = Duration::from_millis(2);
        for _ in 0..PATIENCE.as_millis() / step.as_millis() {
            if self.is_ready() {
                return Ok(process);
            }
            if let Some(status) = process.wait_for_end(step) {
                return Err(failed(format!("ended while starting, with status {status}")));
            }
        }
        Err(failed(format!("did not answer PING within {} s", PATIENCE.as_secs())))
    }

    /// Returns `true` if this server accepts connections. The log line proves that *this* server
    /// holds the port: a reply alone could come from another server that took the port first.
    fn is_ready(&self) -> bool {
        let log = self.log();
        let ready = ["eady to accept connections", "Sentinel ID is"];
        // A server that loads data logs only that it has begun. By then it holds the port.
        let loading = ["Server initialized", "Loading RDB"];
        let said = |lines: &[&str]| lines.iter().any(|line| log.contains(line));
        if !(said(&ready) || self.while_loading && said(&loading)) {
            return false;
        }
        let ping = || self.address.connect(Duration::from_secs(1))?.command(&[b"PING"]);
        ping().is_ok_and(|reply| {
            let is_loading = matches!(reply, Reply::Error(text) if text.starts_with("LOADING"));
            self.while_loading || !is_loading
        })
    }
}
