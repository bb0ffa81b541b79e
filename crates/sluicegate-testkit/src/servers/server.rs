//! One real server, owned by a test.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::port::free_port;
use super::process::{PATIENCE, Process};
use super::resp::{Connection, Reply};

/// How often a lost race for a port is run again.
const PORTS_TRIED: u32 = 10;
/// What one command of a test may take: far above what a healthy server needs.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// A real Redis or Valkey server on a free loopback port. It ends with this value, however this
/// value ends.
///
/// It writes nothing to disk (no snapshots, no append-only file) unless its options say so; its
/// folder is removed with it.
#[derive(Debug)]
pub struct Server {
    binary: ServerBinary,
    options: Vec<String>,
    port: u16,
    folder: PathBuf,
    /// `None` after a failed restart.
    process: Option<Process>,
}

impl Server {
    /// Starts the first program of [`available`] and waits until it answers.
    ///
    /// # Errors
    /// When no server program can be used (run `cargo xtask setup`), or it doesn't come up.
    pub fn start() -> Result<Self, ServerError> {
        let binaries = available()?;
        // `available` never answers an empty list.
        let first = binaries.first().ok_or(ServerError::NotRunning)?;
        Self::start_with(first, &[])
    }

    /// Starts `binary` with further command-line options, such as `["--maxmemory", "4mb"]`; they
    /// come last and so win. The port, the log and its level must stay as they are: by them the
    /// start is watched. With `--sentinel` it is a sentinel that watches nothing yet.
    ///
    /// # Errors
    /// When the server doesn't come up: the error holds its log.
    pub fn start_with(binary: &ServerBinary, options: &[&str]) -> Result<Self, ServerError> {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let mut attempt = 1;
        loop {
            let port = free_port().map_err(ServerError::io("find a free port"))?;
            let folder = new_folder().map_err(ServerError::io("make the server's folder"))?;
            match launch(binary, port, &folder, &options) {
                Ok(process) => {
                    let (binary, process) = (binary.clone(), Some(process));
                    return Ok(Self { binary, options, port, folder, process });
                }
                Err(ServerError::Start { log, .. })
                    if attempt < PORTS_TRIED && log.contains("already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The program that runs.
    #[must_use]
    pub fn binary(&self) -> &ServerBinary {
        &self.binary
    }

    /// Where clients connect to: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port on 127.0.0.1; the same after a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of the server process; another one after a restart.
    ///
    /// # Errors
    /// When a restart has failed, so that there never was such a process.
    pub fn pid(&self) -> Result<u32, ServerError> {
        Ok(self.running()?.pid())
    }

    /// What the server has logged since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        read_log(&self.folder)
    }

    /// Opens a connection on which each step may take up to `patience` (not zero).
    ///
    /// # Errors
    /// When the server doesn't accept it in time.
    pub fn connect(&self, patience: Duration) -> Result<Connection, ServerError> {
        Connection::open(self.port, patience).map_err(ServerError::io("connect to the server"))
    }

    /// Sends one command on a connection of its own, and answers the reply, be it an error reply.
    ///
    /// # Errors
    /// When no reply comes within five seconds.
    pub fn command(&self, words: &[&[u8]]) -> Result<Reply, ServerError> {
        let mut connection = self.connect(COMMAND_PATIENCE)?;
        connection.command(words).map_err(ServerError::io("read the server's reply"))
    }

    /// Sends one command and answers its reply as text (see [`Reply`]'s `Display`).
    ///
    /// # Errors
    /// As [`Server::command`], and when the reply is an error.
    pub fn cli(&self, words: &[&str]) -> Result<String, ServerError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        match self.command(&words)? {
            Reply::Error(text) => Err(ServerError::Refused(text)),
            reply => Ok(reply.to_string()),
        }
    }

    /// Halts the server (`SIGSTOP`): connections stay open and nothing is answered. Returns once
    /// it has come to a halt.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        self.running()?.pause()
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        self.running()?.resume()
    }

    /// Kills the server (`SIGKILL`) and waits until it is gone: connections break, new ones are
    /// refused, its data is lost.
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        self.running()?.kill()
    }

    /// Kills the server if it runs and starts it again, on the same port with the same options
    /// and folder. Waits until it answers.
    ///
    /// # Errors
    /// When it doesn't come up again, for example because another process took the port.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        if let Some(process) = self.process.take() {
            match process.kill() {
                Ok(()) | Err(ServerError::NotRunning) => process.release()?,
                Err(error) => return Err(error),
            }
        }
        // A restart that failed has taken the folder with it.
        make_folder(&self.folder, true).map_err(ServerError::io("make the server's folder"))?;
        self.process = Some(launch(&self.binary, self.port, &self.folder, &self.options)?);
        Ok(())
    }

    fn running(&self) -> Result<&Process, ServerError> {
        self.process.as_ref().ok_or(ServerError::NotRunning)
    }
}

/// Starts the program and waits until it says and shows that it takes connections.
fn launch(
    binary: &ServerBinary,
    port: u16,
    folder: &Path,
    options: &[String],
) -> Result<Process, ServerError> {
    let port_text = port.to_string();
    let folder_text = folder.to_string_lossy();
    let fixed = [
        "--bind",
        "127.0.0.1",
        "--port",
        &port_text,
        "--dir",
        &folder_text,
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    let mut all: Vec<String> = Vec::new();
    if options.iter().any(|option| option == "--sentinel") {
        // A sentinel wants a file to write what it learns to.
        let file = folder.join("sentinel.conf");
        fs::write(&file, "").map_err(ServerError::io("write the sentinel's file"))?;
        all.push(file.to_string_lossy().into_owned());
    }
    all.extend(fixed.map(str::to_owned));
    all.extend_from_slice(options);
    let process = Process::spawn(folder, binary.path(), &all)?;
    let failed = |what: String| ServerError::Start {
        why: format!("{binary} on port {port} {what}"),
        log: read_log(folder),
    };

    // Waiting for the server's end is what paces the questions: no clock, no sleep, and a server
    // that gives up is noticed at once.
    let step = Duration::from_millis(2);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if is_ready(port, folder) {
            return Ok(process);
        }
        if let Some(status) = process.wait_for_end(step) {
            return Err(failed(format!("ended while starting, with status {status}")));
        }
    }
    Err(failed(format!("did not answer PING within {} s", PATIENCE.as_secs())))
}

/// The log line proves that *this* server holds the port: a reply alone could come from a
/// stranger who won the race for it.
fn is_ready(port: u16, folder: &Path) -> bool {
    let log = read_log(folder);
    ["eady to accept connections", "Sentinel ID is"].iter().any(|line| log.contains(line))
        && Connection::open(port, Duration::from_secs(1))
            .and_then(|mut connection| connection.command(&[b"PING"]))
            .is_ok_and(|reply| !matches!(reply, Reply::Error(text) if text.starts_with("LOADING")))
}

fn read_log(folder: &Path) -> String {
    let log = fs::read(folder.join("server.log")).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

/// A folder that is ours alone, and unknown to everyone else.
fn new_folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let parent = env::temp_dir().canonicalize()?;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("sluicegate-test-server-{}-{number}", process::id()));
        match make_folder(&folder, false) {
            Ok(()) => return Ok(folder),
            // Left by an earlier process with our id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// With `existing_too` it is no error if the folder is there already.
fn make_folder(folder: &Path, existing_too: bool) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(existing_too).create(folder)
}
