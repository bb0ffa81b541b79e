//! Extracts the components of a key from a request.

use std::borrow::Cow;

use http::header::COOKIE;
use percent_encoding::percent_decode;

use crate::client_address::ClientAddress;
use crate::escape::byte_of;
use crate::key::KeyWriter;
use crate::key_component::KeyComponent;
use crate::missing::{MissingComponent, MissingReason};
use crate::request::{NotSingle, RequestView, User, host, host_name, single_value};

/// Appends the value of a component in `request` to a key.
pub(super) fn write_component(
    component: &KeyComponent,
    request: &dyn RequestView,
    address: &ClientAddress,
    key: &mut KeyWriter,
) -> Result<(), MissingComponent> {
    let result = match component {
        KeyComponent::Ip => write_network(request, address, key),
        KeyComponent::User => write_text(request.user().map(User::as_bytes), key),
        KeyComponent::Method => write_text(Some(request.method().as_bytes()), key),
        KeyComponent::Path => write_path(request.path().as_bytes(), key),
        KeyComponent::Route => write_text(request.route().map(str::as_bytes), key),
        KeyComponent::Host => host(request).and_then(|host| write_host(host, key)),
        KeyComponent::Header(name) => {
            single_value(request, name).and_then(|value| write_text(Some(value), key))
        }
        KeyComponent::Cookie(name) => write_cookie(request, name, key),
        KeyComponent::Query(name) => write_query(request, name, key),
        KeyComponent::Literal(literal) => {
            key.push(literal.as_bytes());
            Ok(())
        }
        KeyComponent::Custom => Err(NotSingle::Absent),
    };
    result.map_err(|why| MissingComponent {
        component: component.clone(),
        reason: match why {
            NotSingle::Absent => MissingReason::Absent,
            NotSingle::Ambiguous => MissingReason::Ambiguous,
        },
    })
}

/// Appends the name of a host, without user, port and final period.
pub(super) fn write_host(host: &[u8], key: &mut KeyWriter) -> Result<(), NotSingle> {
    let name = host_name(host);
    name.iter().for_each(|byte| key.push_byte(byte.to_ascii_lowercase()));
    if name.is_empty() { Err(NotSingle::Absent) } else { Ok(()) }
}

pub(super) fn write_text(text: Option<&[u8]>, key: &mut KeyWriter) -> Result<(), NotSingle> {
    let text = text.filter(|text| !text.is_empty()).ok_or(NotSingle::Absent)?;
    key.push(text);
    Ok(())
}

fn write_network(
    request: &dyn RequestView,
    address: &ClientAddress,
    key: &mut KeyWriter,
) -> Result<(), NotSingle> {
    key.push_network(address.network(request).ok_or(NotSingle::Absent)?);
    Ok(())
}

/// Appends a path with its percent escapes normalized by RFC 3986, section 6.2.2. Unreserved
/// characters are unescaped, and the digits of all other escapes are in upper case. From the first
/// `%` that begins no escape, the rest of the path is unchanged, so a normalized path is its own
/// normal form. An empty path is missing: no request for a resource has one.
pub(super) fn write_path(path: &[u8], key: &mut KeyWriter) -> Result<(), NotSingle> {
    if path.is_empty() {
        return Err(NotSingle::Absent);
    }
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let escape = (byte == b'%').then(|| after.split_first_chunk()).flatten();
        let value = escape.and_then(|(digits, after)| Some((byte_of(*digits)?, after)));
        rest = match (value, escape) {
            (Some((value, after)), _)
                if value.is_ascii_alphanumeric() || b"-._~".contains(&value) =>
            {
                key.push_byte(value);
                after
            }
            (Some((_, after)), Some((digits, _))) => {
                key.push_byte(byte);
                key.push(&digits.map(|digit| digit.to_ascii_uppercase()));
                after
            }
            _ if byte == b'%' => {
                key.push(rest);
                return Ok(());
            }
            _ => {
                key.push_byte(byte);
                after
            }
        };
    }
    Ok(())
}

fn write_cookie(
    request: &dyn RequestView,
    name: &str,
    key: &mut KeyWriter,
) -> Result<(), NotSingle> {
    let mut single = SingleValue::default();
    request.each_field(&COOKIE, &mut |line| {
        for pair in line.split(|&byte| byte == b';') {
            let mut halves = pair.splitn(2, |&byte| byte == b'=').map(<[u8]>::trim_ascii);
            if let (Some(own_name), Some(value)) = (halves.next(), halves.next())
                && percent_decode(own_name).eq(name.bytes())
            {
                let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
                single.add(percent_decode(inner.unwrap_or(value)).into());
            }
        }
    });
    single.write(key)
}

fn write_query(
    request: &dyn RequestView,
    name: &str,
    key: &mut KeyWriter,
) -> Result<(), NotSingle> {
    let mut single = SingleValue::default();
    for (own_name, value) in form_urlencoded::parse(request.query().unwrap_or_default().as_bytes())
    {
        if own_name == name {
            single.add(match value {
                Cow::Borrowed(value) => Cow::Borrowed(value.as_bytes()),
                Cow::Owned(value) => Cow::Owned(value.into_bytes()),
            });
        }
    }
    single.write(key)
}

/// The only value of a name that may occur several times, decoded.
struct SingleValue<'r>(Result<Cow<'r, [u8]>, NotSingle>);

impl Default for SingleValue<'_> {
    fn default() -> Self {
        Self(Err(NotSingle::Absent))
    }
}

impl<'r> SingleValue<'r> {
    /// Adds a value. A repetition of the same value changes nothing.
    fn add(&mut self, value: Cow<'r, [u8]>) {
        match &self.0 {
            Err(NotSingle::Absent) => self.0 = Ok(value),
            Ok(first) if *first == value => {}
            _ => self.0 = Err(NotSingle::Ambiguous),
        }
    }

    fn write(self, key: &mut KeyWriter) -> Result<(), NotSingle> {
        write_text(Some(&self.0?), key)
    }
}
