//! Free loopback ports.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr, TcpListener};

/// Start of the range, below the ports that systems use for outgoing connections.
///
/// So while a server is down between kill and restart, a client's own connection can't take its
/// port (or connect to itself). Cluster bus ports, 10,000 higher, stay valid too.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Returns the machine's IPv6 loopback address `::1`, or `None` if it has none.
///
/// In that case, a note on standard error says so, even if a test's output is captured. Tests that
/// need the address are then skipped.
#[must_use]
pub fn loopback_v6() -> Option<IpAddr> {
    let ip = Ipv6Addr::LOCALHOST.into();
    match TcpListener::bind((ip, 0)) {
        Ok(_) => Some(ip),
        Err(error) => {
            let _ = writeln!(io::stderr(), "not tested: this machine has no ::1 ({error})");
            None
        }
    }
}

/// Returns a port of this address that was free just now. Another process may still take it first.
/// So the caller starts its server and tries another port if that fails.
pub(crate) fn free_port(ip: IpAddr) -> io::Result<u16> {
    // A random start keeps parallel test processes apart.
    let random = RandomState::new().hash_one(FIRST);
    let mut offset = u16::try_from(random % u64::from(COUNT)).unwrap_or(0);
    for _ in 0..COUNT {
        let port = FIRST + offset;
        match TcpListener::bind((ip, port)) {
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
