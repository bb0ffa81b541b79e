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

/// What one command of a test may take: far above what a healthy server needs.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// As many keys as take a while to read one by one, each as long as the server reads at once.
const FILL: &str = "for i = 1, 2000 do redis.call('SET', 'key:' .. i, ('x'):rep(1024)) end";

/// A real Redis or Valkey server on a free loopback port. It ends with this value, however this
/// value ends.
///
/// It writes nothing to disk (no snapshots, no append-only file) unless its options say so; its
/// folder is removed with it.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    ip: IpAddr,
    port: u16,
    tls_port: Option<u16>,
    socket: Option<PathBuf>,
    /// Whom the kit's own commands are sent as.
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
    /// The program that runs.
    #[must_use]
    pub fn binary(&self) -> &ServerBinary {
        &self.launch.binary
    }

    /// Where clients connect to: `redis://127.0.0.1:PORT`, or `rediss://…` if all is encrypted.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.port == 0 && self.tls_port.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.address())
    }

    /// Where clients and other servers connect to: the TLS port if there is no other.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let port = if self.port == 0 { self.tls_port.unwrap_or(0) } else { self.port };
        SocketAddr::new(self.ip, port)
    }

    /// Its [address](Self::address) as two words of a command.
    pub(super) fn host(&self) -> (String, String) {
        (self.address().ip().to_string(), self.address().port().to_string())
    }

    /// The port; the same after a restart. 0 if it listens on a socket only, or over TLS only.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port that speaks TLS.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    /// The path of the Unix socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The id of the server process; another one after a restart.
    ///
    /// # Errors
    /// When a restart has failed, so that there never was such a process.
    pub fn pid(&self) -> Result<u32, ServerError> {
        Ok(self.running()?.pid())
    }

    /// Whether the server process is there, be it paused.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.wait_for_end(Duration::ZERO).is_none())
    }

    /// What the server has logged since it was last started.
    #[must_use]
    pub fn log(&self) -> String {
        self.launch.log()
    }

    /// Opens a connection on which each step may take up to `patience` (not zero).
    ///
    /// # Errors
    /// When the server doesn't accept it in time.
    pub fn connect(&self, patience: Duration) -> Result<Connection, ServerError> {
        self.launch.address.connect(patience).map_err(ServerError::io("connect to the server"))
    }

    /// Sends one command on a connection of its own, and answers the reply, be it an error reply.
    /// If the server has a password, the connection is given it first.
    ///
    /// # Errors
    /// When no reply comes within five seconds, or the server doesn't take the password.
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

    /// Makes this user what these rules say, and nothing else, such as
    /// `["on", ">password", "~prefix:*", "+get"]`.
    ///
    /// # Errors
    /// When the server doesn't take a rule.
    pub fn set_user(&self, user: &str, rules: &[&str]) -> Result<(), ServerError> {
        self.cli(&[&["ACL", "SETUSER", user, "reset"], rules].concat()).map(|_| ())
    }

    /// Gives a user another password in the place of all that it had. Connections that have
    /// logged in stay.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn change_password(&mut self, user: &str, password: &str) -> Result<(), ServerError> {
        let rule = format!(">{password}");
        self.cli(&["ACL", "SETUSER", user, "resetpass", &rule])?;
        if user == "default" {
            self.credentials = Some(Credentials::of_default_user(password));
        }
        Ok(())
    }

    /// Kills the server and starts it again with 2,000 keys that mean nothing, in the place of its
    /// own, which it reads so slowly that it answers `LOADING` for more than a minute, or until
    /// [`finish_loading`](Self::finish_loading).
    ///
    /// # Errors
    /// When it can't save the keys or doesn't come up again.
    pub fn start_loading(&mut self) -> Result<(), ServerError> {
        self.cli(&["FLUSHALL"])?;
        self.cli(&["CONFIG", "SET", "rdbcompression", "no"])?;
        self.cli(&["EVAL", FILL, "0"])?;
        self.cli(&["SAVE"])?;
        let fixed = self.launch.fixed.clone();
        // So many microseconds a key, and a look at clients at each.
        let slowly = ["--key-load-delay", "50000", "--loading-process-events-interval-bytes"];
        self.launch.fixed.extend(slowly.map(str::to_owned));
        self.launch.fixed.push("1024".to_owned());
        self.launch.while_loading = true;
        let outcome = self.restart();
        self.launch.while_loading = false;
        self.launch.fixed = fixed;
        outcome
    }

    /// Lets a server that is reading its data come to its end at once.
    ///
    /// # Errors
    /// When it refuses.
    pub fn finish_loading(&self) -> Result<(), ServerError> {
        self.cli(&["CONFIG", "SET", "key-load-delay", "0"]).map(|_| ())
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
