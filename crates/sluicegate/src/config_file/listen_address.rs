//! Addresses to listen on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on: `HOST:PORT`, `:PORT`, `unix:PATH` or `fd:NAME`.
///
/// The host is an IP address or a name; without one, all addresses of the machine count. Port 0 takes a free one. The
/// path of a Unix socket begins with `/` or `.`, and `?mode=660` at its end sets the rights of the socket. `fd:NAME` is
/// a socket that systemd has opened under this name (`FileDescriptorName=`).
///
/// ```
/// use sluicegate::config::{ListenAddress, ListenHost};
///
/// let address: ListenAddress = "localhost:8080".parse()?;
/// let host = ListenHost::Name("localhost".into());
/// assert_eq!(address, ListenAddress::Tcp { host, port: 8080 });
/// for text in ["127.0.0.1:0", "[::1]:8080", ":8080", "unix:/run/sluicegate.sock?mode=660", "fd:http"] {
///     assert_eq!(text.parse::<ListenAddress>()?.to_string(), text);
/// }
/// assert_eq!(
///     "localhost".parse::<ListenAddress>().unwrap_err().to_string(),
///     "has no port: write localhost:8080"
/// );
/// # Ok::<(), sluicegate::config::ListenAddressError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// A TCP port.
    Tcp {
        /// The host.
        host: ListenHost,
        /// The port; 0 means any free one.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// The path of the socket.
        path: PathBuf,
        /// The rights of the socket; `None` leaves them to the process' umask.
        mode: Option<SocketMode>,
    },
    /// A socket that was opened by systemd.
    Passed {
        /// The name that systemd gave it.
        name: Box<str>,
    },
}

/// The host of an address to listen on.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ListenHost {
    /// All addresses of the machine, of IPv4 and IPv6.
    All,
    /// One address.
    Ip(IpAddr),
    /// A name, which is resolved when the service starts. If it has several addresses, the first IPv4 address counts,
    /// or the first address if there is none.
    Name(Box<str>),
}

/// The rights of a Unix socket, as of `chmod`: three octal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SocketMode(u16);

/// Text that isn't an address to listen on. The message says what to write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListenAddressError(String);

impl ListenAddress {
    /// Port 8080 of this machine alone.
    pub(super) const LOOPBACK: Self =
        Self::Tcp { host: ListenHost::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: 8080 };
}

impl SocketMode {
    /// Returns the bits, 0 to `0o777`.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    fn of(text: &str) -> Option<Self> {
        let is_octal = text.len() == 3 && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        u16::from_str_radix(text, 8).ok().filter(|_| is_octal).map(Self)
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp { host: ListenHost::Ip(address.ip()), port: address.port() }
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        let parsed = match text.split_once(':') {
            Some(("unix", path)) => unix(path),
            Some(("fd", name)) => passed(name),
            _ => tcp(text),
        };
        parsed.map_err(ListenAddressError)
    }
}

fn unix(text: &str) -> Result<ListenAddress, String> {
    let (path, mode) = match text.split_once('?') {
        None => (text, None),
        Some((path, option)) => {
            let mode = option.strip_prefix("mode=").and_then(SocketMode::of);
            let mode = mode.ok_or(
                "has an option other than its mode: write ?mode= and three octal digits, such as \
                 ?mode=660",
            )?;
            (path, Some(mode))
        }
    };
    if !path.starts_with(['/', '.']) || path.contains('\0') {
        return Err("needs the path of a socket, from / or . on: write one such as \
                    unix:/run/sluicegate.sock"
            .to_owned());
    }
    Ok(ListenAddress::Unix { path: path.into(), mode })
}

fn passed(name: &str) -> Result<ListenAddress, String> {
    let is_name = (1..=255).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if !is_name {
        return Err(
            "needs the name of a socket, which is FileDescriptorName= in its .socket unit: \
                    write one such as fd:http"
                .to_owned(),
        );
    }
    Ok(ListenAddress::Passed { name: name.into() })
}

fn tcp(text: &str) -> Result<ListenAddress, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address.into());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        let example = SocketAddr::new(address, 8080);
        return Err(format!("has no port: write {example}"));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(match text {
            host if is_name(host) => format!("has no port: write {host}:8080"),
            port if port.parse::<u16>().is_ok() => format!(
                "has no host; write :{port} for all addresses of the machine, or 127.0.0.1:{port}"
            ),
            _ => format!("isn't an address: write {EXAMPLES}"),
        });
    };
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let Some(port) = port.parse().ok().filter(|_| is_number) else {
        return Err("needs a port from 0 to 65535 at its end".to_owned());
    };
    let host = match host {
        "" => ListenHost::All,
        "*" => {
            return Err(format!(
                "has `*` as its host; write :{port} for all addresses of the machine"
            ));
        }
        name if is_name(name) => ListenHost::Name(name.into()),
        _ => {
            return Err(format!(
                "has a host that is neither an IP address nor a name: write {EXAMPLES}"
            ));
        }
    };
    Ok(ListenAddress::Tcp { host, port })
}

/// Addresses that parse.
const EXAMPLES: &str =
    "one such as 127.0.0.1:8080, [::1]:8080, localhost:8080, :8080 or unix:/PATH";

/// Returns whether a text is the name of a host. The last label must not be a number, because the text would then be a
/// mistyped address.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain) && !label.starts_with('-')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(is_label)
        && text.rsplit('.').next().is_some_and(|last| !is_number(last))
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host: ListenHost::All, port } => write!(f, ":{port}"),
            Self::Tcp { host: ListenHost::Ip(address), port } => {
                SocketAddr::new(*address, *port).fmt(f)
            }
            Self::Tcp { host: ListenHost::Name(name), port } => write!(f, "{name}:{port}"),
            Self::Unix { path, mode } => {
                write!(f, "unix:{}", path.display())?;
                mode.map_or(Ok(()), |SocketMode(bits)| write!(f, "?mode={bits:03o}"))
            }
            Self::Passed { name } => write!(f, "fd:{name}"),
        }
    }
}

impl fmt::Display for ListenAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ListenAddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_address_says_what_to_write() {
        for (text, words) in [
            ("", "isn't an address: write one such as"),
            ("8080", "has no host; write :8080"),
            ("localhost", "has no port: write localhost:8080"),
            ("127.0.0.1", "has no port: write 127.0.0.1:8080"),
            ("::1", "has no port: write [::1]:8080"),
            ("localhost:", "needs a port from 0 to 65535"),
            ("localhost:+1", "needs a port from 0 to 65535"),
            ("localhost:65536", "needs a port from 0 to 65535"),
            ("localhost:http", "needs a port from 0 to 65535"),
            ("*:8080", "write :8080 for all addresses"),
            ("127.0.0.256:80", "neither an IP address nor a name"),
            ("2001:db8::x:80", "neither an IP address nor a name"),
            ("[localhost]:80", "neither an IP address nor a name"),
            ("http://localhost:80", "neither an IP address nor a name"),
            ("a..b:80", "neither an IP address nor a name"),
            ("-a:80", "neither an IP address nor a name"),
            ("a\0:80", "neither an IP address nor a name"),
            ("unix:", "write one such as unix:/run/sluicegate.sock"),
            ("unix:8080", "needs the path of a socket"),
            ("unix:@abstract", "needs the path of a socket"),
            ("unix:/a\0b", "needs the path of a socket"),
            ("unix:/a?mode=", "three octal digits"),
            ("unix:/a?mode=888", "three octal digits"),
            ("unix:/a?mode=0660", "three octal digits"),
            ("unix:/a?mode=+66", "three octal digits"),
            ("unix:/a?owner=me", "has an option other than its mode"),
            ("fd:", "write one such as fd:http"),
            ("fd:a:b", "needs the name of a socket"),
            ("fd:a b", "needs the name of a socket"),
        ] {
            let message = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
        assert!(format!("{}:80", "a".repeat(64)).parse::<ListenAddress>().is_err());
        assert_eq!(Ok(ListenAddress::LOOPBACK), "127.0.0.1:8080".parse());
    }

    #[test]
    fn a_socket_has_a_path_and_maybe_rights() {
        for (text, path, bits) in [
            ("unix:/run/a.sock", "/run/a.sock", None),
            ("unix:///run/a.sock", "///run/a.sock", None),
            ("unix:./a?mode=007", "./a", Some(0o007)),
            ("unix:/a:b?mode=660", "/a:b", Some(0o660)),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let ListenAddress::Unix { path: found, mode } = address else { panic!("{text}") };
            assert_eq!((found.to_str(), mode.map(SocketMode::bits)), (Some(path), bits));
        }
    }
}
