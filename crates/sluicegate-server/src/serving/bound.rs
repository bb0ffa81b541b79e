//! Sockets that accept connections.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use sluicegate::config::{ListenAddress, ListenHost};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use super::passed::{PassedSocket, PassedSockets};
use super::peer::Peer;
use super::socket::Socket;
use super::socket_file::SocketFile;

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) struct Bound {
    acceptor: Acceptor,
    owner: Owner,
}

#[derive(Debug)]
enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The owner of a socket.
#[derive(Debug)]
enum Owner {
    /// This process.
    Process,
    /// This process, as that of the socket's file.
    File(Arc<SocketFile>),
    /// The manager systemd, which keeps the socket for the next process.
    Systemd,
}

impl Bound {
    /// Binds a Unix socket, or takes one from systemd. An address in use is an error, so two services never share one.
    ///
    /// # Errors
    /// Returns a message with the reason.
    pub(super) async fn new(
        address: &ListenAddress,
        passed: &mut PassedSockets,
    ) -> Result<Self, String> {
        let told = |error: io::Error| error.to_string();
        match address {
            ListenAddress::Unix { path, mode } => {
                let (listener, file) = SocketFile::bind(path, *mode).await.map_err(told)?;
                let acceptor = Acceptor::Unix(UnixListener::from_std(listener).map_err(told)?);
                Ok(Self { acceptor, owner: Owner::File(Arc::new(file)) })
            }
            ListenAddress::Passed { name } => {
                let acceptor = Acceptor::of(passed.named(name)?).map_err(told)?;
                Ok(Self { acceptor, owner: Owner::Systemd })
            }
            _ => Err("this kind of address isn't supported".to_owned()),
        }
    }

    /// Listens on a socket that is bound to an address.
    ///
    /// # Errors
    /// Returns an error if another process listens there.
    pub(super) fn listening(socket: TcpSocket) -> io::Result<Self> {
        let acceptor = Acceptor::Tcp(socket.listen(1024)?);
        Ok(Self { acceptor, owner: Owner::Process })
    }

    /// Moves the socket to the caller's runtime.
    ///
    /// # Errors
    /// Returns an error if the runtime has no memory for it.
    pub(crate) fn moved_here(self) -> io::Result<Self> {
        let acceptor = match self.acceptor {
            Acceptor::Tcp(listener) => Acceptor::Tcp(TcpListener::from_std(listener.into_std()?)?),
            Acceptor::Unix(listener) => {
                Acceptor::Unix(UnixListener::from_std(listener.into_std()?)?)
            }
        };
        Ok(Self { acceptor, ..self })
    }

    /// Returns the file of the socket, if there is one.
    pub(crate) fn file(&self) -> Option<Arc<SocketFile>> {
        match &self.owner {
            Owner::File(file) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Socket, Peer)> {
        match &self.acceptor {
            Acceptor::Tcp(listener) => listener.accept().await.map(tcp),
            Acceptor::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| (Socket::Unix(stream), Peer::Unix))
            }
        }
    }

    /// Stops new clients from connecting, while those that have begun to connect are unaffected.
    pub(super) fn turn_away(&self) -> TurnedAway {
        match (&self.owner, &self.acceptor) {
            (Owner::Systemd, _) => TurnedAway::NextProcess,
            (Owner::File(file), _) => {
                file.remove();
                TurnedAway::Now
            }
            (Owner::Process, Acceptor::Tcp(listener)) if ignore_new(listener) => TurnedAway::Soon,
            _ => TurnedAway::Now,
        }
    }

    /// Closes the socket. Returns the connections that weren't accepted yet.
    pub(super) fn close(self) -> Vec<(Socket, Peer)> {
        // Ask the system directly: it sees new connections before the runtime does.
        match self.acceptor {
            Acceptor::Tcp(listener) => {
                let Ok(listener) = listener.into_std() else { return Vec::new() };
                let accepted = std::iter::from_fn(|| listener.accept().ok());
                let stream = |(stream, peer): (std::net::TcpStream, _)| {
                    stream.set_nonblocking(true).ok()?;
                    Some(tcp((TcpStream::from_std(stream).ok()?, peer)))
                };
                accepted.filter_map(stream).collect()
            }
            Acceptor::Unix(listener) => {
                let Ok(listener) = listener.into_std() else { return Vec::new() };
                let accepted = std::iter::from_fn(|| listener.accept().ok());
                let stream = |(stream, _): (std::os::unix::net::UnixStream, _)| {
                    stream.set_nonblocking(true).ok()?;
                    Some((Socket::Unix(UnixStream::from_std(stream).ok()?), Peer::Unix))
                };
                accepted.filter_map(stream).collect()
            }
        }
    }
}

/// The effect of turning clients away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TurnedAway {
    /// New clients are ignored, and some may still be connecting.
    Soon,
    /// All clients have connected, or can't.
    Now,
    /// New clients wait for the next process, which has the same socket.
    NextProcess,
}

impl Acceptor {
    fn of(passed: PassedSocket) -> io::Result<Self> {
        match passed {
            PassedSocket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            PassedSocket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::Unix)
            }
        }
    }
}

impl fmt::Display for Bound {
    /// Writes the address, with the port that was taken.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.acceptor {
            Acceptor::Tcp(listener) => match listener.local_addr() {
                Ok(address) => address.fmt(f),
                Err(error) => write!(f, "({error})"),
            },
            Acceptor::Unix(listener) => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                match path {
                    Some(path) => write!(f, "unix:{}", path.display()),
                    None => f.write_str("unix:(unnamed)"),
                }
            }
        }
    }
}

fn tcp((stream, peer): (TcpStream, SocketAddr)) -> (Socket, Peer) {
    (Socket::Tcp(stream), Peer::Ip(peer.ip()))
}

/// Returns a socket that is bound to an address, and doesn't listen yet.
pub(super) async fn tcp_socket(host: &ListenHost, port: u16) -> io::Result<TcpSocket> {
    let address = match host {
        ListenHost::Ip(address) => SocketAddr::new(*address, port),
        ListenHost::Name(name) => {
            let mut found = tokio::net::lookup_host((&**name, port)).await?;
            let first = found.next();
            let ipv4 = first.into_iter().chain(found).find(SocketAddr::is_ipv4);
            let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            ipv4.or(first).ok_or_else(none)?
        }
        _ => return bind_all(port),
    };
    bind(address)
}

/// Binds a port on all addresses, or on all IPv4 addresses if the system lacks IPv6.
fn bind_all(port: u16) -> io::Result<TcpSocket> {
    let both = || {
        let socket = TcpSocket::new_v6()?;
        socket2::SockRef::from(&socket).set_only_v6(false)?;
        // A restart can use the port immediately.
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv6Addr::UNSPECIFIED, port).into())?;
        Ok(socket)
    };
    match both() {
        Err(error) if io::Error::kind(&error) != io::ErrorKind::AddrInUse => {
            bind((Ipv4Addr::UNSPECIFIED, port).into())
        }
        bound => bound,
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart can use the port immediately.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Makes the system ignore new connection attempts, while handshakes in progress complete. Returns
/// whether it does.
#[cfg(target_os = "linux")]
fn ignore_new(socket: &TcpListener) -> bool {
    use socket2::{SockFilter, SockRef};
    // A program for the system's packet filter. It sees each packet for the socket from the TCP
    // header on, and drops packets with SYN and without ACK.
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_UNLESS_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    let program = [
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_UNLESS_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ];
    SockRef::from(socket).attach_filter(&program).is_ok()
}

/// Does nothing: other systems have no such filter. Clients that connect in the last microseconds
/// are reset.
#[cfg(not(target_os = "linux"))]
fn ignore_new(_: &TcpListener) -> bool {
    false
}
