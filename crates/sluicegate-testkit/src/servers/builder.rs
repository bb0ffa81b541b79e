//! The builder of a server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
#[cfg(feature = "tls")]
use std::path::Path;

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::fake_clock::FakeClock;
use super::folder::new_folder;
use super::launch::{Address, Launch};
use super::port::free_port;
use super::server::{Credentials, Server};
#[cfg(feature = "tls")]
use super::tls::{Authority, Certificate};

/// Maximum number of ports to try when another process takes the chosen one first.
const PORTS_TRIED: u32 = 10;

/// A server to start, from [`Server::builder`].
///
/// ```
/// use sluicegate_testkit::servers::{Server, available};
///
/// let binary = &available()?[0];
/// let server = Server::builder(binary).socket().password("secret").start()?;
/// assert_eq!(server.cli(&["PING"])?, "PONG");
/// assert!(server.socket().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ServerBuilder {
    binary: ServerBinary,
    options: Vec<String>,
    environment: Vec<String>,
    password: Option<String>,
    has_port: bool,
    has_socket: bool,
    ip: IpAddr,
    tls: Option<Vec<String>>,
}

impl Server {
    /// Starts the first program of [`available`] and waits until it answers.
    ///
    /// # Errors
    /// Returns an error if no server program can be used (run `cargo xtask setup`), or if it
    /// doesn't start.
    pub fn start() -> Result<Self, ServerError> {
        let binaries = available()?;
        // `available` never returns an empty list.
        let first = binaries.first().ok_or(ServerError::NotRunning)?;
        Self::start_with(first, &[])
    }

    /// Starts `binary` with additional [options](ServerBuilder::options).
    ///
    /// # Errors
    /// Returns an error with the server's log if the server doesn't start.
    pub fn start_with(binary: &ServerBinary, options: &[&str]) -> Result<Self, ServerError> {
        Self::builder(binary).options(options).start()
    }

    /// Returns a builder for a server of this program.
    #[must_use]
    pub fn builder(binary: &ServerBinary) -> ServerBuilder {
        ServerBuilder::new(binary)
    }
}

impl ServerBuilder {
    pub(super) fn new(binary: &ServerBinary) -> Self {
        Self {
            binary: binary.clone(),
            options: Vec::new(),
            environment: Vec::new(),
            password: None,
            has_port: true,
            has_socket: false,
            ip: Ipv4Addr::LOCALHOST.into(),
            tls: None,
        }
    }

    /// Adds command-line options, such as `["--maxmemory", "4mb"]`. They come last and override
    /// others.
    ///
    /// They must not change the addresses, the log and its level, which the kit uses to watch the
    /// start. With `--sentinel` the server is a sentinel that watches nothing yet.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Sets the default user's password. A replica also uses it for its primary, and the kit for
    /// its own commands.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Also listens on a Unix socket, whose path [`Server::socket`] returns.
    #[must_use]
    pub fn socket(mut self) -> Self {
        self.has_socket = true;
        self
    }

    /// Listens only on a Unix socket, not on a TCP port.
    #[must_use]
    pub fn socket_only(mut self) -> Self {
        (self.has_socket, self.has_port) = (true, false);
        self
    }

    /// Listens on this address of the machine instead of 127.0.0.1, for example `::1`.
    #[must_use]
    pub fn ip(mut self, ip: IpAddr) -> Self {
        self.ip = ip;
        self
    }

    /// Also listens on a TLS port, [`Server::tls_port`], with this certificate. If `clients` is
    /// given, clients need a certificate of it. The start fails if the program was built without
    /// TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate, clients: Option<&Authority>) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let authority = clients.map_or(certificate.authority_file(), Authority::certificate_file);
        let pairs = [
            ("--tls-cert-file", text(certificate.certificate_file())),
            ("--tls-key-file", text(certificate.key_file())),
            ("--tls-ca-cert-file", text(authority)),
            ("--tls-auth-clients", if clients.is_some() { "yes" } else { "no" }.to_owned()),
        ];
        let words = pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        self.tls = Some(words.collect());
        self
    }

    /// Listens only on a TLS port; see [`tls`](Self::tls). The kit's own commands use a Unix
    /// socket. Servers, cluster nodes and sentinels also reach others over TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_only(mut self, certificate: &Certificate, clients: Option<&Authority>) -> Self {
        (self.has_socket, self.has_port) = (true, false);
        self.tls(certificate, clients).tls_among_servers()
    }

    /// Reaches other servers over TLS: its primary or, for a sentinel, all that it watches.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_among_servers(self) -> Self {
        self.options(&["--tls-replication", "yes"])
    }

    /// Uses this clock instead of the system's. Debian's Redis 7.0 doesn't start with one.
    #[must_use]
    pub fn clock(mut self, clock: &FakeClock) -> Self {
        let variables = clock.environment().into_iter();
        self.environment = variables.map(|(name, value)| format!("{name}={value}")).collect();
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// Returns an error with the server's log if the server doesn't start.
    pub fn start(&self) -> Result<Server, ServerError> {
        let mut attempt = 1;
        loop {
            match self.start_once() {
                Err(ServerError::Start { log, .. })
                    if attempt < PORTS_TRIED && log.contains("already in use") =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn start_once(&self) -> Result<Server, ServerError> {
        let folder = new_folder().map_err(ServerError::io("make the server's folder"))?;
        let free = || free_port(self.ip).map_err(ServerError::io("find a free port"));
        let port = if self.has_port { free()? } else { 0 };
        let mut fixed = ["--bind", &self.ip.to_string(), "--port", &port.to_string()]
            .map(str::to_owned)
            .to_vec();
        let socket = self.has_socket.then(|| folder.join("server.sock"));
        if let Some(socket) = &socket {
            fixed.extend(["--unixsocket".to_owned(), socket.to_string_lossy().into_owned()]);
            fixed.extend(["--unixsocketperm", "700"].map(str::to_owned));
        }
        let tls_port = self.tls.as_ref().map(|_| free()).transpose()?;
        if let (Some(words), Some(port)) = (&self.tls, tls_port) {
            fixed.extend(["--tls-port".to_owned(), port.to_string()]);
            fixed.extend_from_slice(words);
        }
        if let Some(password) = &self.password {
            let words = ["--requirepass", password, "--masterauth", password];
            fixed.extend(words.map(str::to_owned));
        }
        let address = match &socket {
            Some(socket) if !self.has_port => Address::Socket(socket.clone()),
            _ => Address::Port(SocketAddr::new(self.ip, port)),
        };
        let launch = Launch {
            binary: self.binary.clone(),
            address,
            folder,
            environment: self.environment.clone(),
            fixed,
            options: self.options.clone(),
            while_loading: false,
        };
        let credentials = self.password.as_deref().map(Credentials::of_default_user);
        Server::launch(launch, self.ip, port, tls_port, socket, credentials)
    }
}
