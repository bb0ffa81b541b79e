//! The other end of a connection.

use std::net::{IpAddr, Ipv4Addr};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    /// A program at this address.
    Ip(IpAddr),
    /// A program on this machine that may use the Unix socket.
    Unix,
}

impl Peer {
    /// Returns the peer's address. A peer on a Unix socket has the loopback address.
    pub(crate) const fn address(self) -> IpAddr {
        match self {
            Self::Ip(address) => address,
            Self::Unix => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}
