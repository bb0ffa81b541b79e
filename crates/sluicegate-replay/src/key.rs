//! The fields of a log line that form the key.

use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;
use std::str::FromStr;

use sluicegate_http::ClientAddress;

use crate::keys::SEPARATOR;
use crate::record::{Field, Fields, Record};

/// The fields of a log line whose values, joined, are the key of its request.
///
/// The default, `ip`, is the client's network, the key that middleware uses too. For IPv4 it is the
/// whole address, for IPv6 the first 64 bits, without the port and in canonical form.
/// [`KeyExpression::with_client_address`] sets other prefixes. Text that isn't an address is used
/// unchanged.
///
/// The other fields are `host` (the client as logged), `user`, `method`, `path` (as logged, with
/// its query), `status` and `agent`. A field that is missing in a truncated line is empty.
///
/// ```
/// use sluicegate_replay::KeyExpression;
///
/// let key: KeyExpression = "ip + path".parse()?;
/// assert_eq!(key.to_string(), "ip+path");
/// assert_eq!(KeyExpression::default().to_string(), "ip");
/// assert!("referer".parse::<KeyExpression>().is_err());
/// # Ok::<(), sluicegate_replay::KeyExpressionError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyExpression {
    parts: Vec<Part>,
    address: ClientAddress,
    /// Whether the network of an IPv4 address is the whole address.
    is_ipv4_whole: bool,
}

/// A part of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// Network of the host.
    Ip,
    Text(Field),
}

impl Part {
    fn named(name: &str) -> Option<Self> {
        if name == "ip" {
            return Some(Self::Ip);
        }
        Field::ALL.iter().find(|(other, _)| *other == name).map(|(_, field)| Self::Text(*field))
    }

    fn name(self) -> &'static str {
        Field::ALL
            .iter()
            .find(|(_, field)| self == Self::Text(*field))
            .map_or("ip", |(name, _)| name)
    }
}

impl KeyExpression {
    fn new(parts: Vec<Part>) -> Self {
        Self { parts, address: ClientAddress::peer(), is_ipv4_whole: true }
    }

    /// Returns the key expression for lines that bring their own key.
    pub(crate) fn brought_along() -> Self {
        Self::new(vec![Part::Text(Field::Host)])
    }

    /// Sets the prefixes of addresses that count as one client for `ip`. A log has no proxies to
    /// trust, so only the prefixes apply.
    #[must_use]
    pub fn with_client_address(mut self, address: ClientAddress) -> Self {
        let [first, second] = [0, 1].map(|last| IpAddr::from([192, 0, 2, last]));
        self.is_ipv4_whole = address.network_of(first) != address.network_of(second);
        self.address = address;
        self
    }

    /// Returns the key of a request: one of its texts, or several joined in `buffer`.
    pub(crate) fn key<'k>(&self, record: &Record<'k>, buffer: &'k mut Vec<u8>) -> &'k [u8] {
        match self.parts[..] {
            [Part::Text(field)] => return record.text(field),
            [Part::Ip] if self.is_ipv4_whole && is_ipv4(record.text(Field::Host)) => {
                return record.text(Field::Host);
            }
            _ => {}
        }
        buffer.clear();
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                buffer.push(SEPARATOR as u8);
            }
            match *part {
                Part::Text(field) => buffer.extend_from_slice(record.text(field)),
                Part::Ip => {
                    let host = record.text(Field::Host);
                    match self.address.network_of_text(host) {
                        // Writing to a `Vec` can't fail.
                        Some(network) => drop(write!(buffer, "{network}")),
                        None => buffer.extend_from_slice(host),
                    }
                }
            }
        }
        buffer
    }

    /// Returns the fields that form the key.
    pub(crate) fn fields(&self) -> Fields {
        let field = |part: &Part| if let Part::Text(field) = part { *field } else { Field::Host };
        self.parts.iter().map(field).collect()
    }
}

/// Returns `true` for an IPv4 address in the form that a network prints. It saves parsing most
/// addresses.
fn is_ipv4(text: &[u8]) -> bool {
    let mut numbers = text.split(|&byte| byte == b'.');
    let is_byte = |digits: &[u8]| match *digits {
        [a] => a.is_ascii_digit(),
        [b'1'..=b'9', b] => b.is_ascii_digit(),
        [b'1', b, c] | [b'2', b @ b'0'..=b'4', c] => b.is_ascii_digit() && c.is_ascii_digit(),
        [b'2', b'5', c] => matches!(c, b'0'..=b'5'),
        _ => false,
    };
    (0..4).all(|_| numbers.next().is_some_and(is_byte)) && numbers.next().is_none()
}

impl Default for KeyExpression {
    fn default() -> Self {
        Self::new(vec![Part::Ip])
    }
}

impl fmt::Display for KeyExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            write!(f, "{}{}", if index > 0 { "+" } else { "" }, part.name())?;
        }
        Ok(())
    }
}

impl FromStr for KeyExpression {
    type Err = KeyExpressionError;

    fn from_str(text: &str) -> Result<Self, KeyExpressionError> {
        let mut parts = Vec::new();
        for word in text.split('+') {
            let Some(part) = Part::named(word.trim()) else {
                return Err(KeyExpressionError::Unknown(word.trim().to_owned()));
            };
            if parts.contains(&part) {
                return Err(KeyExpressionError::Repeated(word.trim().to_owned()));
            }
            parts.push(part);
        }
        Ok(Self::new(parts))
    }
}

/// A key expression that can't be parsed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum KeyExpressionError {
    /// A repeated field.
    Repeated(String),
    /// A word that isn't a field.
    Unknown(String),
}

impl fmt::Display for KeyExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated(field) => write!(f, "`{field}` is listed twice: name each field once"),
            Self::Unknown(field) => write!(
                f,
                "`{}` is not a field of an access log: join some of ip, {} with `+`",
                field.escape_debug(),
                Field::ALL.map(|(name, _)| name).join(", ")
            ),
        }
    }
}

impl std::error::Error for KeyExpressionError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::access::AccessLine;
    use crate::times::Times;

    fn key(expression: &str, line: &[u8]) -> Vec<u8> {
        let expression: KeyExpression = expression.parse().unwrap();
        let mut record = Record::default();
        let line = AccessLine::read(line, &mut Times::default()).unwrap();
        line.write(&mut record, expression.fields());
        expression.key(&record, &mut Vec::new()).to_vec()
    }

    #[test]
    fn fields_join_in_the_order_asked_for() {
        let line = br#"h - u [17/May/2015:10:05:03 +0000] "GET /p HTTP/1.1" 200 1 "-" "a b""#;
        for (expression, expected) in [
            ("host", &b"h"[..]),
            ("user", b"u"),
            ("status+host", b"200\nh"),
            ("host+user+method+path+status+agent", b"h\nu\nGET\n/p\n200\na b"),
        ] {
            assert_eq!(key(expression, line), expected, "{expression}");
        }
    }

    #[test]
    fn addresses_of_one_client_are_one_key() {
        for (host, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:5001", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
            ("[2001:DB8:1:2:0:0:0:2]:443", "2001:db8:1:2::/64"),
            ("192.0.2.256", "192.0.2.256"),
            ("192.0.2.01", "192.0.2.01"),
            ("192.0.2.1.5", "192.0.2.1.5"),
            ("crawler.example.com", "crawler.example.com"),
            ("-", "-"),
        ] {
            let line = format!("{host} - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1");
            assert_eq!(key("ip", line.as_bytes()), expected.as_bytes(), "{host}");
            assert_eq!(key("host", line.as_bytes()), host.as_bytes());
            assert_eq!(key("ip+status", line.as_bytes()), format!("{expected}\n200").as_bytes());
        }
    }

    #[test]
    fn an_ipv4_address_in_its_usual_form_is_its_own_network() {
        let address = ClientAddress::peer();
        for number in (0..=u32::MAX).step_by(7_919_777) {
            let text = std::net::Ipv4Addr::from(number).to_string();
            assert!(is_ipv4(text.as_bytes()), "{text}");
            let network =
                address.network_of_text(text.as_bytes()).map(|network| network.to_string());
            assert_eq!(network.as_deref(), Some(&*text));
        }
    }

    #[test]
    fn prefixes_say_which_addresses_are_one_client() {
        let address = ClientAddress::peer().ipv4_prefix(24).unwrap().ipv6_prefix(48).unwrap();
        let expression = KeyExpression::default().with_client_address(address);
        for (host, expected) in
            [("192.0.2.1", "192.0.2.0/24"), ("2001:db8:1:2::1", "2001:db8:1::/48")]
        {
            let mut record = Record::default();
            record.set(Field::Host, host.as_bytes());
            assert_eq!(expression.key(&record, &mut Vec::new()), expected.as_bytes());
        }
    }

    #[test]
    fn a_field_that_a_torn_line_lacks_is_empty() {
        let line = br#"h - - [17/May/2015:10:05:03 +0000] "GE"#;
        assert_eq!(key("method+path+agent", line), b"GE\n\n");
    }

    #[test]
    fn an_unknown_field_is_named_with_those_there_are() {
        for (text, named) in
            [("host+referer", "`referer`"), ("", "``"), ("host,path", "`host,path`")]
        {
            let message = text.parse::<KeyExpression>().unwrap_err().to_string();
            assert!(message.contains(named), "{message}");
            assert!(message.contains("ip, host, user, method, path, status, agent"), "{message}");
        }
        assert!("host+host".parse::<KeyExpression>().unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn an_expression_prints_as_it_reads() {
        assert_eq!(" host + path ".parse::<KeyExpression>().unwrap().to_string(), "host+path");
    }
}
