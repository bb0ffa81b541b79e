//! Web proxies with configurations of their own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::error::ServerError;
use super::folder::new_folder;
use super::port::free_port;
use super::process::{PATIENCE, Process};
use super::tool::find_tool;

/// A running web proxy, such as nginx or Caddy. It stops when it is dropped.
///
/// ```no_run
/// use sluicegate_testkit::servers::WebProxy;
///
/// let caddy = WebProxy::start("caddy", &["run", "--config", "Caddyfile"], |address| {
///     vec![("Caddyfile", format!("http://{address} {{\n\trespond hello\n}}\n"))]
/// })?;
/// assert_ne!(caddy.address().port(), 0);
/// # Ok::<(), sluicegate_testkit::servers::ServerError>(())
/// ```
#[derive(Debug)]
pub struct WebProxy {
    /// Stops the proxy when it is dropped.
    _process: Process,
    address: SocketAddr,
}

impl WebProxy {
    /// Starts a program with these words in a new folder, and waits until it accepts connections. `files` returns the
    /// files of the folder, by name, for the address that the proxy listens on.
    ///
    /// # Errors
    /// Returns an error if there is no such program (run `cargo xtask setup`), or an error with the proxy's log if it
    /// doesn't start.
    pub fn start<N: AsRef<str>>(
        program: &str,
        words: &[&str],
        files: impl Fn(SocketAddr) -> Vec<(N, String)>,
    ) -> Result<Self, ServerError> {
        /// Another process may take a free port before the proxy does.
        const TRIES: usize = 3;
        let mut started = Self::start_once(program, words, &files);
        for _ in 1..TRIES {
            if started.is_ok() {
                break;
            }
            started = Self::start_once(program, words, &files);
        }
        started
    }

    fn start_once<N: AsRef<str>>(
        name: &str,
        words: &[&str],
        files: impl Fn(SocketAddr) -> Vec<(N, String)>,
    ) -> Result<Self, ServerError> {
        let program = find_tool(name)?;
        let ip = Ipv4Addr::LOCALHOST.into();
        let address = SocketAddr::new(ip, free_port(ip).map_err(ServerError::io("find a port"))?);
        let folder = new_folder().map_err(ServerError::io("make the proxy's folder"))?;
        for (name, text) in files(address) {
            fs::write(folder.join(name.as_ref()), text)
                .map_err(ServerError::io("write the proxy's configuration"))?;
        }
        // The configurations name each other by relative paths.
        let mut line: Vec<String> = ["-C".to_owned(), folder.to_string_lossy().into_owned()].into();
        line.push(program.to_string_lossy().into_owned());
        line.extend(words.iter().map(|&word| word.to_owned()));
        let process = Process::spawn(&folder, "/usr/bin/env".as_ref(), &line)?;
        let failed = |what: String| ServerError::Start {
            why: format!("{name} {what}"),
            log: fs::read_to_string(folder.join("server.log")).unwrap_or_default(),
        };
        // Waiting for the end paces the polling, and detects immediately if the proxy exits.
        let step = Duration::from_millis(5);
        for _ in 0..PATIENCE.as_millis() / step.as_millis() {
            if TcpStream::connect(address).is_ok() {
                return Ok(Self { _process: process, address });
            }
            if let Some(status) = process.wait_for_end(step) {
                return Err(failed(format!("ended while starting, with status {status}")));
            }
        }
        Err(failed(format!("did not start within {} s", PATIENCE.as_secs())))
    }

    /// Returns the address that the proxy listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}
