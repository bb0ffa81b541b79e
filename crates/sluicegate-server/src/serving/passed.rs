//! Sockets that systemd has opened for this process.

use std::env;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use listenfd::ListenFd;

/// The sockets that systemd has passed to this process, each with a name.
#[derive(Debug)]
pub(crate) struct PassedSockets(Result<Passed, String>);

struct Passed {
    /// The names of the sockets, in order.
    names: Vec<String>,
    sockets: ListenFd,
}

/// A socket that was passed.
#[derive(Debug)]
pub(super) enum PassedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl PassedSockets {
    /// Takes the sockets out of the environment, which must happen while the process has one thread.
    pub(crate) fn take() -> Self {
        Self(Passed::take())
    }

    /// Takes the socket with this name.
    ///
    /// # Errors
    /// Returns a message if there is no such socket, there are several, or it doesn't accept connections.
    pub(super) fn named(&mut self, name: &str) -> Result<PassedSocket, String> {
        let Passed { names, sockets } = self.0.as_mut().map_err(|why| why.clone())?;
        let mut found = (0..).zip(&*names).filter(|(_, it)| *it == name).map(|(index, _)| index);
        let (index, None) = (found.next(), found.next()) else {
            return Err("systemd has passed several sockets with this name: give each a .socket \
                        unit with its own FileDescriptorName="
                .to_owned());
        };
        let Some(index) = index else {
            return Err(format!(
                "systemd has passed no socket with this name, but {}: write \
                 FileDescriptorName={name} in its .socket unit",
                names.join(", ")
            ));
        };
        if let Ok(Some(socket)) = sockets.take_tcp_listener(index) {
            return Ok(PassedSocket::Tcp(socket));
        }
        match sockets.take_unix_listener(index) {
            Ok(Some(socket)) => Ok(PassedSocket::Unix(socket)),
            Ok(None) => Err("another listener has this socket: use each for one".to_owned()),
            Err(error) => Err(format!(
                "it isn't a TCP or Unix socket that accepts connections ({error}): use \
                 ListenStream= in its .socket unit"
            )),
        }
    }
}

impl Passed {
    fn take() -> Result<Self, String> {
        /// More sockets than any unit has.
        const MOST: usize = 1_000;
        let variable = |name| env::var(name).unwrap_or_default();
        let count: usize = variable("LISTEN_FDS").parse().unwrap_or(0);
        if !(1..=MOST).contains(&count) {
            return Err("systemd has passed no sockets to this process (LISTEN_FDS): start it by \
                        a service unit that has a .socket unit"
                .to_owned());
        }
        let (meant, own) = (variable("LISTEN_PID"), std::process::id().to_string());
        if meant != own {
            return Err(format!(
                "the sockets are for the process `{meant}` (LISTEN_PID), and this one is {own}: \
                 start it from ExecStart= directly, or with `exec` in a script"
            ));
        }
        let names: Vec<String> = variable("LISTEN_FDNAMES").split(':').map(str::to_owned).collect();
        if names.len() != count {
            return Err(format!(
                "systemd has passed {count} sockets with {} names (LISTEN_FDNAMES): each needs one",
                names.len()
            ));
        }
        Ok(Self { names, sockets: ListenFd::from_env() })
    }
}

impl std::fmt::Debug for Passed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passed").field("names", &self.names).finish_non_exhaustive()
    }
}
