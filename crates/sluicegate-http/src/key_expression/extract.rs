//! From a request to the components of its key.

use std::borrow::Cow;

use http::header::COOKIE;
use percent_encoding::percent_decode;

use crate::client_address::ClientAddress;
use crate::escape::byte_of;
use crate::key::KeyWriter;
use crate::key_component::KeyComponent;
use crate::missing::{Missing, MissingReason};
use crate::request::{NotOne, RequestView, host, only_value};

/// Writes what the request has of a component to the end of a key.
pub(super) fn write(
    component: &KeyComponent,
    request: &dyn RequestView,
    address: &ClientAddress,
    key: &mut KeyWriter,
) -> Result<(), Missing> {
    let written = match component {
        KeyComponent::Ip => network(request, address, key),
        KeyComponent::User => text(request.user(), key),
        KeyComponent::Method => text(Some(request.method().as_bytes()), key),
        KeyComponent::Path => {
            path(request.path(), key);
            Ok(())
        }
        KeyComponent::Route => text(request.route().map(str::as_bytes), key),
        KeyComponent::Host => host(request).and_then(|host| {
            host.iter().for_each(|byte| key.push_byte(byte.to_ascii_lowercase()));
            if host.is_empty() { Err(NotOne::None) } else { Ok(()) }
        }),
        KeyComponent::Header(name) => {
            only_value(request, name).and_then(|value| text(Some(value), key))
        }
        KeyComponent::Cookie(name) => cookie(request, name, key),
        KeyComponent::Query(name) => query(request, name, key),
        KeyComponent::Literal(literal) => {
            key.push(literal.as_bytes());
            Ok(())
        }
        KeyComponent::Custom => Err(NotOne::None),
    };
    written.map_err(|why| Missing {
        component: component.clone(),
        reason: match why {
            NotOne::None => MissingReason::Absent,
            NotOne::Several => MissingReason::Ambiguous,
        },
    })
}

fn text(text: Option<&[u8]>, key: &mut KeyWriter) -> Result<(), NotOne> {
    let text = text.filter(|text| !text.is_empty()).ok_or(NotOne::None)?;
    key.push(text);
    Ok(())
}

fn network(
    request: &dyn RequestView,
    address: &ClientAddress,
    key: &mut KeyWriter,
) -> Result<(), NotOne> {
    key.push_network(address.network(request).ok_or(NotOne::None)?);
    Ok(())
}

/// Escapes of characters that need none are undone, and the others get capital digits: spellings
/// that RFC 3986 calls equivalent.
fn path(path: &str, key: &mut KeyWriter) {
    let mut rest = path.as_bytes();
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
            _ => {
                key.push_byte(byte);
                after
            }
        };
    }
}

fn cookie(request: &dyn RequestView, name: &str, key: &mut KeyWriter) -> Result<(), NotOne> {
    let mut only = Only::default();
    request.each_field(&COOKIE, &mut |line| {
        for pair in line.split(|&byte| byte == b';') {
            let mut halves = pair.splitn(2, |&byte| byte == b'=').map(<[u8]>::trim_ascii);
            if let (Some(own_name), Some(value)) = (halves.next(), halves.next())
                && percent_decode(own_name).eq(name.bytes())
            {
                let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
                only.add(percent_decode(inner.unwrap_or(value)).into());
            }
        }
    });
    only.write(key)
}

fn query(request: &dyn RequestView, name: &str, key: &mut KeyWriter) -> Result<(), NotOne> {
    let mut only = Only::default();
    for (own_name, value) in form_urlencoded::parse(request.query().unwrap_or_default().as_bytes())
    {
        if own_name == name {
            only.add(match value {
                Cow::Borrowed(value) => Cow::Borrowed(value.as_bytes()),
                Cow::Owned(value) => Cow::Owned(value.into_bytes()),
            });
        }
    }
    only.write(key)
}

/// The one value that was found, decoded.
struct Only<'r>(Result<Cow<'r, [u8]>, NotOne>);

impl Default for Only<'_> {
    fn default() -> Self {
        Self(Err(NotOne::None))
    }
}

impl<'r> Only<'r> {
    /// One more value; the same one again changes nothing.
    fn add(&mut self, value: Cow<'r, [u8]>) {
        match &self.0 {
            Err(NotOne::None) => self.0 = Ok(value),
            Ok(first) if *first == value => {}
            _ => self.0 = Err(NotOne::Several),
        }
    }

    fn write(self, key: &mut KeyWriter) -> Result<(), NotOne> {
        text(Some(&self.0?), key)
    }
}
