//! Free loopback ports.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Below the ports that systems give to outgoing connections: while a server is down between kill
/// and restart, a client's own connection can't take its port (or connect to itself). Cluster bus
/// ports, 10,000 higher, stay valid too.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that was free a moment ago. Another process may still take it first: the caller starts
/// its server and tries another port if that fails.
pub(crate) fn free_port() -> io::Result<u16> {
    // A random start keeps test processes that run side by side apart.
    let random = RandomState::new().hash_one(FIRST);
    let mut offset = u16::try_from(random % u64::from(COUNT)).unwrap_or(0);
    for _ in 0..COUNT {
        let port = FIRST + offset;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            // Some systems reserve ports; any other refusal concerns more than this port.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
        offset = (offset + 1) % COUNT;
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("every port from {FIRST} to {} is in use", FIRST + COUNT - 1),
    ))
}
