//! Parses one address of a header field.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;

/// An upper bound on the length of an address with a port.
///
/// Brackets, an IPv6 address of up to 45 characters, a colon, and a port or a short obfuscated name
/// fit.
const MAX_BYTES: usize = 80;

/// Parses an address of `X-Forwarded-For`: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:80`.
pub(super) fn with_optional_port(text: &[u8]) -> Option<IpAddr> {
    let text = readable(text)?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, after) = bracketed.split_once(']')?;
        let port_or_nothing = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return Some(IpAddr::V6(address.parse().ok().filter(|_| port_or_nothing)?));
    }
    match text.split_once(':') {
        Some((address, port)) if is_port(port) => address.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        _ => text.parse().ok(),
    }
}

/// Parses an address with a port, and with or without brackets around IPv6: `192.0.2.1:80`,
/// `2001:db8::1:80`.
pub(super) fn with_port(text: &[u8]) -> Option<IpAddr> {
    let (address, port) = readable(text)?.rsplit_once(':')?;
    if !is_port(port) {
        return None;
    }
    let inner = address.strip_prefix('[').and_then(|address| address.strip_suffix(']'));
    match inner {
        Some(address) => address.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => address.parse().ok(),
    }
}

/// Returns the address of an element of `Forwarded`: the value of its only `for` parameter.
pub(super) fn of_forwarded(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = element.trim_ascii();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b";") {
            rest = after.trim_ascii_start();
            continue;
        }
        let equals = rest.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (rest.get(..equals)?.trim_ascii(), rest.get(equals + 1..)?);
        let (value, after) = value_and_rest(value.trim_ascii_start())?;
        if name.eq_ignore_ascii_case(b"for") {
            if found.is_some() {
                return None;
            }
            found = Some(with_optional_port(&value)?);
        }
        rest = after.trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b";") {
            return None;
        }
    }
    found
}

/// Returns the value at the beginning of `text`, unquoted and unescaped, and the rest.
fn value_and_rest(text: &[u8]) -> Option<(SmallVec<[u8; MAX_BYTES]>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|&byte| byte == b';').unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end)?;
        return Some((SmallVec::from_slice(value.trim_ascii_end()), rest));
    };
    let mut value = SmallVec::new();
    let mut bytes = quoted.iter();
    loop {
        match bytes.next()? {
            b'"' => return Some((value, bytes.as_slice())),
            b'\\' => value.push(*bytes.next()?),
            byte => value.push(*byte),
        }
    }
}

/// Returns the text without white space around it, if it isn't too long for an address.
pub(super) fn readable(text: &[u8]) -> Option<&str> {
    let text = text.trim_ascii();
    if text.len() > MAX_BYTES { None } else { std::str::from_utf8(text).ok() }
}

/// Returns whether the text is a port number, or the obfuscated port of RFC 7239: `_`, then letters,
/// digits and `.-_`.
fn is_port(text: &str) -> bool {
    if let Some(name) = text.strip_prefix('_') {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        return !name.is_empty() && name.bytes().all(is_allowed);
    }
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: Option<&str>) -> Option<IpAddr> {
        text.map(|text| text.parse().unwrap())
    }

    #[test]
    fn an_address_is_read_with_and_without_its_port() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            (" 192.0.2.1\t", Some("192.0.2.1")),
            ("192.0.2.1:65535", Some("192.0.2.1")),
            ("192.0.2.1:_x-1", Some("192.0.2.1")),
            ("192.0.2.1:", None),
            ("192.0.2.1:65536", None),
            ("192.0.2.1:+1", None),
            ("192.0.2.1:80:80", None),
            ("2001:db8::1", Some("2001:db8::1")),
            ("2001:db8::1:80", Some("2001:db8::1:80")),
            ("::1", Some("::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("[2001:db8::1]80", None),
            ("[2001:db8::1]:", None),
            ("[2001:db8::1", None),
            ("[192.0.2.1]", None),
            ("[fe80::1%eth0]", None),
            ("fe80::1%eth0", None),
            ("192.0.2.01", None),
            ("192.0.2", None),
            ("unknown", None),
            ("_hidden", None),
            ("example.com", None),
            ("", None),
        ] {
            assert_eq!(with_optional_port(text.as_bytes()), address(expected), "{text}");
        }
        assert_eq!(with_optional_port(&[b'1'; 100]), None);
        assert_eq!(with_optional_port(b"\xff"), None);
    }

    #[test]
    fn a_port_after_a_bare_ipv6_address_is_no_part_of_it() {
        for (text, expected) in [
            ("192.0.2.1:46532", Some("192.0.2.1")),
            ("2001:db8::1:46532", Some("2001:db8::1")),
            ("[2001:db8::1]:46532", Some("2001:db8::1")),
            ("2001:db8::1", None),
            ("192.0.2.1", None),
            ("", None),
        ] {
            assert_eq!(with_port(text.as_bytes()), address(expected), "{text}");
        }
    }

    #[test]
    fn a_forwarded_element_is_read_with_quotes_brackets_and_ports() {
        for (text, expected) in [
            ("for=192.0.2.1", Some("192.0.2.1")),
            ("For=\"192.0.2.1:4711\"", Some("192.0.2.1")),
            ("for=192.0.2.1:4711", Some("192.0.2.1")),
            ("for=\"[2001:db8::1]\"", Some("2001:db8::1")),
            ("FOR=\"[2001:db8::1]:4711\"", Some("2001:db8::1")),
            ("for=\"[2001:db8::1]:_port\"", Some("2001:db8::1")),
            ("for=2001:db8::1", Some("2001:db8::1")),
            ("by=203.0.113.1;for=192.0.2.1;proto=http;host=a", Some("192.0.2.1")),
            ("host=\"a;for=6.6.6.6\";for=192.0.2.1", Some("192.0.2.1")),
            ("host=\"a\\\";for=6.6.6.6;x=\\\"\";for=192.0.2.1", Some("192.0.2.1")),
            (" for = 192.0.2.1 ; proto=http ", Some("192.0.2.1")),
            ("for=\"192\\.0.2.1\"", Some("192.0.2.1")),
            (";for=192.0.2.1;;", Some("192.0.2.1")),
            ("for=192.0.2.1;for=192.0.2.2", None),
            ("for=unknown", None),
            ("for=\"_gazonk\"", None),
            ("for=\"192.0.2.1", None),
            ("for=\"192.0.2.1\"x", None),
            ("for=\"192.0.2.1\\", None),
            ("for", None),
            ("for=", None),
            ("by=192.0.2.1", None),
            ("192.0.2.1", None),
            ("", None),
        ] {
            assert_eq!(of_forwarded(text.as_bytes()), address(expected), "{text}");
        }
    }
}
