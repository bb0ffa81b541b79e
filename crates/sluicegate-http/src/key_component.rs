//! What a key can be made of.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::header::COOKIE;
use percent_encoding::percent_decode;

use crate::client_address::ClientAddress;
use crate::escape::byte_of;
use crate::key::KeyWriter;
use crate::missing::{Missing, MissingReason};
use crate::request::{NotOne, RequestView, host, only_value};

/// One thing that a request has and a key can be made of.
///
/// Prints as a [`KeyExpression`](crate::KeyExpression) has it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum KeyComponent {
    /// `ip`: the client's network, as [`ClientAddress`] finds it.
    Ip,
    /// `user`: who the application says is asking.
    User,
    /// `method`: the method as sent.
    Method,
    /// `path`: the path, whose percent escapes are brought to one spelling. A client chooses it
    /// freely; most of the time [`Route`](Self::Route) is meant.
    Path,
    /// `route`: the route that was found, as the application wrote it.
    Route,
    /// `host`: the host that is asked, in lower case, without port and final dot.
    Host,
    /// `header:NAME`: the value of a header field.
    Header(HeaderName),
    /// `cookie:NAME`: the value of a cookie, without quotes and percent escapes. A name may be
    /// any text.
    Cookie(Arc<str>),
    /// `query:NAME`: the value of a parameter of the query, decoded like a form. A name may be
    /// any text.
    Query(Arc<str>),
    /// `'text'`: always this text.
    Literal(Arc<str>),
    /// What a function in code takes from a request; it has no spelling.
    Custom,
}

impl KeyComponent {
    /// Writes what the request has to the end of a key.
    pub(crate) fn write(
        &self,
        request: &dyn RequestView,
        address: &ClientAddress,
        key: &mut KeyWriter,
    ) -> Result<(), Missing> {
        let written = match self {
            Self::Ip => network(request, address, key),
            Self::User => text(request.user(), key),
            Self::Method => text(Some(request.method().as_bytes()), key),
            Self::Path => {
                path(request.path(), key);
                Ok(())
            }
            Self::Route => text(request.route().map(str::as_bytes), key),
            Self::Host => host(request).and_then(|host| {
                host.iter().for_each(|byte| key.push_byte(byte.to_ascii_lowercase()));
                if host.is_empty() { Err(NotOne::None) } else { Ok(()) }
            }),
            Self::Header(name) => {
                only_value(request, name).and_then(|value| text(Some(value), key))
            }
            Self::Cookie(name) => cookie(request, name, key),
            Self::Query(name) => query(request, name, key),
            Self::Literal(literal) => {
                key.push(literal.as_bytes());
                Ok(())
            }
            Self::Custom => Err(NotOne::None),
        };
        written.map_err(|why| Missing {
            component: self.clone(),
            reason: match why {
                NotOne::None => MissingReason::Absent,
                NotOne::Several => MissingReason::Ambiguous,
            },
        })
    }
}

impl fmt::Display for KeyComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, name) = match self {
            Self::Ip => ("ip", None),
            Self::User => ("user", None),
            Self::Method => ("method", None),
            Self::Path => ("path", None),
            Self::Route => ("route", None),
            Self::Host => ("host", None),
            Self::Header(name) => ("header", Some(name.as_str())),
            Self::Cookie(name) => ("cookie", Some(&**name)),
            Self::Query(name) => ("query", Some(&**name)),
            Self::Literal(text) => return write_quoted(f, text),
            Self::Custom => ("custom", None),
        };
        f.write_str(word)?;
        match name {
            None => Ok(()),
            Some(name) if !name.is_empty() && name.chars().all(is_bare) => write!(f, ":{name}"),
            Some(name) => {
                f.write_str(":")?;
                write_quoted(f, name)
            }
        }
    }
}

/// Whether a name with this character needs no quotes.
pub(crate) fn is_bare(character: char) -> bool {
    !(character.is_whitespace() || character.is_control() || "+'\\".contains(character))
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("'")?;
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            f.write_str("\\")?;
        }
        write!(f, "{character}")?;
    }
    f.write_str("'")
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
