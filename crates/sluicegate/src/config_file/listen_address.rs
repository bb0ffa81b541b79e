//! Addresses to listen on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address to listen on: `HOST:PORT`, where the host is an IP address or a name, or `:PORT` for all
/// addresses of the machine. Port 0 takes a free one.
///
/// ```
/// use sluicegate::config::{ListenAddress, ListenHost};
///
/// let address: ListenAddress = "localhost:8080".parse()?;
/// assert_eq!((address.host(), address.port()), (&ListenHost::Name("localhost".into()), 8080));
/// for text in ["127.0.0.1:0", "[::1]:8080", "localhost:8080", ":8080"] {
///     assert_eq!(text.parse::<ListenAddress>()?.to_string(), text);
/// }
/// assert_eq!(
///     "localhost".parse::<ListenAddress>().unwrap_err().to_string(),
///     "has no port: write localhost:8080"
/// );
/// # Ok::<(), sluicegate::config::ListenAddressError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ListenAddress {
    host: ListenHost,
    port: u16,
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

/// Text that isn't an address to listen on. The message says what to write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListenAddressError(String);

impl ListenAddress {
    /// Port 8080 of this machine alone.
    pub(super) const LOOPBACK: Self =
        Self { host: ListenHost::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: 8080 };

    /// Returns the host.
    #[must_use]
    pub const fn host(&self) -> &ListenHost {
        &self.host
    }

    /// Returns the port; 0 means any free one.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self { host: ListenHost::Ip(address.ip()), port: address.port() }
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            let example = SocketAddr::new(address, 8080);
            return Err(ListenAddressError(format!("has no port: write {example}")));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            let example = match text {
                host if is_name(host) => format!("{host}:8080"),
                port if port.parse::<u16>().is_ok() => {
                    return Err(ListenAddressError(format!(
                        "has no host; write :{port} for all addresses of the machine, or 127.0.0.1:{port}"
                    )));
                }
                _ => return Err(ListenAddressError(format!("isn't an address: write {EXAMPLES}"))),
            };
            return Err(ListenAddressError(format!("has no port: write {example}")));
        };
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let Some(port) = port.parse().ok().filter(|_| is_number) else {
            return Err(ListenAddressError("needs a port from 0 to 65535 at its end".to_owned()));
        };
        let host = match host {
            "" => ListenHost::All,
            "*" => {
                return Err(ListenAddressError(format!(
                    "has `*` as its host; write :{port} for all addresses of the machine"
                )));
            }
            name if is_name(name) => ListenHost::Name(name.into()),
            _ => {
                return Err(ListenAddressError(format!(
                    "has a host that is neither an IP address nor a name: write {EXAMPLES}"
                )));
            }
        };
        Ok(Self { host, port })
    }
}

/// Addresses that parse.
const EXAMPLES: &str = "one such as 127.0.0.1:8080, [::1]:8080, localhost:8080 or :8080";

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
        match &self.host {
            ListenHost::All => write!(f, ":{}", self.port),
            ListenHost::Ip(address) => SocketAddr::new(*address, self.port).fmt(f),
            ListenHost::Name(name) => write!(f, "{name}:{}", self.port),
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
        ] {
            let message = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
        assert!(format!("{}:80", "a".repeat(64)).parse::<ListenAddress>().is_err());
        assert_eq!(Ok(ListenAddress::LOOPBACK), "127.0.0.1:8080".parse());
    }
}
