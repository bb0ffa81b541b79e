//! One real server, owned by a test.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::binary::ServerBinary;
use super::error::ServerError;
use super::folder::make_folder;
use super::launch::Launch;
use super::process::Process;
use super::resp::{Connection, Reply};

/// Maximum time for one command of a test: far above the needs of a healthy server.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// Fills 2,000 keys, so that reading them one by one takes a while. Each is as long as one read of
/// the server.
const FILL: &str = "for i = 1, 2000 do redis.call('SET', 'key:' .. i, ('x'):rep(1024)) end";

/// A real Redis or Valkey server on a free loopback port. It ends with this value, in every case.
///
/// It writes nothing to disk (no snapshots, no append-only file) unless its options say so. Its
/// folder is removed with it.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    ip: IpAddr,
    port: u16,
    tls_port: Option<u16>,
    socket: Option<PathBuf>,
    /// The user of the kit's own commands.
    credentials: Option<Credentials>,
    /// `None` after a failed restart.
    process: Option<Process>,
}

/// A user and its password.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    user: String,
    password: String,
}

impl Server {
    /// Returns the running program.
    #[must_use]
    pub fn binary(&self) -> &ServerBinary {
        &self.launch.binary
    }

    /// Returns the URL for clients: `redis://127.0.0.1:PORT`, or `rediss://…` if only TLS is
    /// available.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.port == 0 && self.tls_port.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.address())
    }

    /// Returns the address for clients and other servers, with the TLS port if there is no other.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let port = if self.port == 0 { self.tls_port.unwrap_or(0) } else { self.port };
        SocketAddr::new(self.ip, port)
    }

    /// Returns its [address](Self::address) as two words of a command.
    pub(super) fn host(&self) -> (String, String) {
        (self.address().ip().to_string(), self.address().port().to_string())
    }

    /// Returns the port, which a restart doesn't change. It is 0 with only a socket or only TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the TLS port.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// Returns the path of the Unix socket on which it listens.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Returns the id of the server process, which a restart changes.
    ///
    /// # Errors
    /// Returns an error if a restart has failed, so that the process never existed.
    pub fn pid(&self) -> Result<u32, ServerError> {
        Ok(self.running()?.pid())
    }

    /// Returns `true` if the server process exists, even if it is paused.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.wait_for_end(Duration::ZERO).is_none())
    }

    /// Returns the server's log since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        self.launch.log()
    }

    /// Opens a connection on which each step may take up to `patience` (not zero).
    ///
    /// # Errors
    /// Returns an error if the server doesn't accept it in time.
    pub fn connect(&self, patience: Duration) -> Result<Connection, ServerError> {
        self.launch.address.connect(patience).map_err(ServerError::io("connect to the server"))
    }

    /// Sends one command on its own connection, and returns the reply, which may be an error reply.
    /// If the server has a password, the connection logs in first.
    ///
    /// # Errors
    /// Returns an error if no reply comes within five seconds, or if the server rejects the
    /// password.
    pub fn command(&self, words: &[&[u8]]) -> Result<Reply, ServerError> {
        let mut connection = self.connect(COMMAND_PATIENCE)?;
        let mut ask = |words: &[&[u8]]| {
            connection.command(words).map_err(ServerError::io("read the server's reply"))
        };
        if let Some(Credentials { user, password }) = &self.credentials
            && let Reply::Error(why) = ask(&[b"AUTH", user.as_bytes(), password.as_bytes()])?
        {
            return Err(ServerError::Refused(why));
        }
        ask(words)
    }

    /// Sends one command and returns its reply as text (see [`Reply`]'s `Display`).
    ///
    /// # Errors
    /// Returns the errors of [`Server::command`], and an error if the reply is one.
    pub fn cli(&self, words: &[&str]) -> Result<String, ServerError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        match self.command(&words)? {
            Reply::Error(text) => Err(ServerError::Refused(text)),
            reply => Ok(reply.to_string()),
        }
    }

    /// Replaces all rules of a user by these, such as `["on", ">password", "~prefix:*", "+get"]`.
    ///
    /// # Errors
    /// Returns an error if the server rejects a rule.
    pub fn set_user(&self, user: &str, rules: &[&str]) -> Result<(), ServerError> {
        self.cli(&[&["ACL", "SETUSER", user, "reset"], rules].concat()).map(|_| ())
    }

    /// Replaces all passwords of a user by this one. Connections that have logged in stay open.
    ///
    /// # Errors
    /// Returns an error if the server refuses.
    pub fn change_password(&mut self, user: &str, password: &str) -> Result<(), ServerError> {
        let rule = format!(">{password}");
        self.cli(&["ACL", "SETUSER", user, "resetpass", &rule])?;
        if user == "default" {
            self.credentials = Some(Credentials::of_default_user(password));
        }
        Ok(())
    }

    /// Restarts the server with 2,000 meaningless keys instead of its own data.
    ///
    /// It loads them so slowly that it answers `LOADING` for more than a minute, or until
    /// [`finish_loading`](Self::finish_loading).
    ///
    /// # Errors
    /// Returns an error if it can't save the keys or doesn't start again.
    pub fn start_loading(&mut self) -> Result<(), ServerError> {
        self.cli(&["FLUSHALL"])?;
        self.cli(&["CONFIG", "SET", "rdbcompression", "no"])?;
        self.cli(&["EVAL", FILL, "0"])?;
        self.cli(&["SAVE"])?;
        let fixed = self.launch.fixed.clone();
        // The delay per key in microseconds, and the bytes after which the server handles clients.
        let slowly = ["--key-load-delay", "50000", "--loading-process-events-interval-bytes"];
        self.launch.fixed.extend(slowly.map(str::to_owned));
        self.launch.fixed.push("1024".to_owned());
        self.launch.while_loading = true;
        let outcome = self.restart();
        self.launch.while_loading = false;
        self.launch.fixed = fixed;
        outcome
    }

    /// Makes a server that loads its data finish immediately.
    ///
    /// # Errors
    /// Returns an error if it refuses.
    pub fn finish_loading(&self) -> Result<(), ServerError> {
        self.cli(&["CONFIG", "SET", "key-load-delay", "0"]).map(|_| ())
    }

    /// Halts the server (`SIGSTOP`): connections stay open and nothing is answered. Returns once it
    /// has halted.
    ///
    /// # Errors
    /// Returns an error if it isn't running.
    pub fn pause(&mut self) -> Result<(), ServerError> {
        self.running()?.pause()
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    /// Returns an error if it isn't running.
    pub fn resume(&mut self) -> Result<(), ServerError> {
        self.running()?.resume()
    }

    /// Kills the server (`SIGKILL`) and waits until it has ended. Connections break, new ones are
    /// refused, and its data is lost.
    ///
    /// # Errors
    /// Returns an error if it isn't running.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        self.running()?.kill()
    }

    /// Kills the server if it runs, and starts it again with the same port, options and folder.
    /// Waits until it answers.
    ///
    /// # Errors
    /// Returns an error if it doesn't start again, for example because another process took the
    /// port.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        if let Some(process) = self.process.take() {
            match process.kill() {
                Ok(()) | Err(ServerError::NotRunning) => process.release()?,
                Err(error) => return Err(error),
            }
        }
        // A failed restart has removed the folder.
        make_folder(&self.launch.folder, true)
            .map_err(ServerError::io("make the server's folder"))?;
        self.process = Some(self.launch.run()?);
        Ok(())
    }

    pub(super) fn launch(
        launch: Launch,
        ip: IpAddr,
        port: u16,
        tls_port: Option<u16>,
        socket: Option<PathBuf>,
        credentials: Option<Credentials>,
    ) -> Result<Self, ServerError> {
        let process = Some(launch.run()?);
        Ok(Self { launch, ip, port, tls_port, socket, credentials, process })
    }

    fn running(&self) -> Result<&Process, ServerError> {
        self.process.as_ref().ok_or(ServerError::NotRunning)
    }
}

impl Credentials {
    pub(super) fn of_default_user(password: &str) -> Self {
        Self { user: "default".to_owned(), password: password.to_owned() }
    }
}
