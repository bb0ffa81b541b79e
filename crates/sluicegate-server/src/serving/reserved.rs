//! Addresses that are taken, and may listen later.

use std::fmt;
use std::io;
use std::sync::Arc;

use sluicegate::config::ListenAddress;
use tokio::net::TcpSocket;

use super::bound::{Bound, tcp_socket};
use super::passed::PassedSockets;
use super::socket_file::SocketFile;

/// A socket that listens, or will. Clients are refused until it does.
#[derive(Debug)]
pub(crate) enum Reserved {
    /// A socket that listens. Its clients wait until they are accepted.
    Listening(Bound),
    /// A socket that refuses clients.
    Quiet(TcpSocket),
}

impl Reserved {
    /// Binds an address that refuses clients until [`listen`](Self::listen). A Unix socket, or one from systemd, lets
    /// them wait.
    ///
    /// # Errors
    /// Returns a message with the reason.
    pub(crate) async fn new(
        address: &ListenAddress,
        passed: &mut PassedSockets,
    ) -> Result<Self, String> {
        match address {
            ListenAddress::Tcp { host, port } => {
                let socket = tcp_socket(host, *port).await.map_err(|error| error.to_string())?;
                Ok(Self::Quiet(socket))
            }
            _ => Bound::new(address, passed).await.map(Self::Listening),
        }
    }

    /// Listens.
    ///
    /// # Errors
    /// Returns an error if another process listens on the address.
    pub(crate) fn listen(self) -> io::Result<Bound> {
        match self {
            Self::Listening(bound) => Ok(bound),
            Self::Quiet(socket) => Bound::listening(socket),
        }
    }

    /// Returns the file of the socket, if there is one.
    pub(crate) fn file(&self) -> Option<Arc<SocketFile>> {
        match self {
            Self::Listening(bound) => bound.file(),
            Self::Quiet(_) => None,
        }
    }
}

impl fmt::Display for Reserved {
    /// Writes the address, with the port that was taken.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening(bound) => bound.fmt(f),
            Self::Quiet(socket) => match socket.local_addr() {
                Ok(address) => address.fmt(f),
                Err(error) => write!(f, "({error})"),
            },
        }
    }
}
