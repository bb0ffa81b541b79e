//! Reads keys that are given as text instead of made from a request.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use sluicegate_core::printable;

use super::{KeyExpression, extract};
use crate::client_address::ClientAddress;
use crate::key::{Key, KeyWriter};
use crate::key_bytes::{ESCAPE, MARK, RESERVED, SEPARATOR, SHARED};
use crate::key_component::KeyComponent;
use crate::key_view::{Form, KeyView};

impl KeyExpression {
    /// Returns the key that this expression makes of a request with the components in `text`.
    ///
    /// It serves keys that an API, a command line or a program gives. Addresses become networks with
    /// the prefix lengths of [`client_address`](Self::client_address), hosts become lower case, and
    /// paths get normalized percent escapes. Text that already is such a key is returned unchanged.
    ///
    /// Several components are joined by `|`, with `\` before each `|` and `\` inside a component. The
    /// first alternative that the text fits counts. To name a later one, begin the text with NUL and
    /// `|` for each alternative before it, as its keys do.
    ///
    /// The [default](Self::default) expression accepts any other text unchanged, because its limit
    /// may count other things than addresses.
    ///
    /// ```
    /// use sluicegate_http::KeyExpression;
    ///
    /// let by_tenant: KeyExpression = "header:x-tenant + ip".parse()?;
    /// assert_eq!(*by_tenant.given(b"acme|2001:DB8::1")?, *b"acme|2001:db8::/64");
    /// assert_eq!(
    ///     by_tenant.given(b"acme").unwrap_err().to_string(),
    ///     "the key `acme` has 1 component, but `header:x-tenant+ip` has 2: join them with `|`; inside one, write `\\|` for `|` and `\\\\` for `\\`"
    /// );
    ///
    /// let default = KeyExpression::default();
    /// assert_eq!(*default.given(b"::ffff:198.51.100.1")?, *b"198.51.100.1");
    /// assert_eq!(*default.given(b"alice")?, *b"alice");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the text is empty, or fits none of the alternatives.
    pub fn given<'k>(&self, text: &'k [u8]) -> Result<Cow<'k, [u8]>, UnfitKey> {
        // A plain component, as most keys are, needs no copy.
        if text.first().is_some_and(|&first| first != RESERVED)
            && let [components] = &*self.alternatives
            && let [component] = &**components
        {
            match component {
                KeyComponent::Ip if self.is_default && !may_be_address(text) => {
                    return Ok(Cow::Borrowed(text));
                }
                KeyComponent::User | KeyComponent::Method | KeyComponent::Route => {
                    return Ok(Cow::Borrowed(text));
                }
                _ => {}
            }
        }
        if text == SHARED {
            return Ok(Cow::Borrowed(text));
        }
        match self.read_given(text) {
            Ok(key) if key.as_bytes() == text => Ok(Cow::Borrowed(text)),
            Ok(key) => Ok(Cow::Owned(key.as_bytes().to_vec())),
            Err(_) if text.is_empty() => Err(self.unfit(text, Unfit::Empty)),
            Err(_) if self.is_default => Ok(Cow::Borrowed(text)),
            Err(unfit) => Err(self.unfit(text, unfit)),
        }
    }

    /// Reads a key that was given as text, as if this expression had made it. The key has the
    /// components of the expression, and `ip` is a client's network. Use it only for callers that are
    /// trusted to name addresses, or with [`KeyView::without_network`].
    #[must_use]
    pub fn read<'k>(&self, text: &'k [u8]) -> KeyView<'k> {
        let (mut parts, mut alternative, mut rest) = (text, 0, self.alternatives());
        let mut components = rest.next().unwrap_or_default();
        while let Some(unmarked) = parts.strip_prefix(&MARK)
            && let Some(next) = rest.next()
        {
            (parts, components) = (unmarked, next);
            alternative += 1;
        }
        // Expect one NUL more than the first component begins with, and another one in alternatives.
        let added = 1 + rest.len().min(1);
        let is_plain = parts.first() != Some(&RESERVED);
        let is_reserved =
            !is_plain && parts.iter().take_while(|&&byte| byte == RESERVED).count() <= added;
        let form = match components {
            _ if is_reserved => Form::Opaque,
            [_] => Form::Single,
            _ => Form::Joined,
        };
        KeyView {
            parts: if is_plain { parts } else { parts.get(added..).unwrap_or_default() },
            form,
            alternative,
            network: None,
            network_at: components.iter().position(|component| *component == KeyComponent::Ip),
            is_text: true,
        }
    }

    /// Returns the key of the first alternative that the text fits, or of the one that it names.
    fn read_given(&self, text: &[u8]) -> Result<Key, Unfit> {
        let count = self.alternatives.len();
        let (mut rest, mut named) = (text, 0);
        while named + 1 < count
            && let Some(unmarked) = rest.strip_prefix(&MARK)
        {
            (rest, named) = (unmarked, named + 1);
        }
        let read = |index: usize| {
            let components = self.alternatives.get(index).map_or(&[][..], AsRef::as_ref);
            self.key_of_components(components, unreserved(rest, index + 1 < count)?)
                .map(|key| key.of_alternative(index, count))
        };
        if named > 0 {
            return read(named);
        }
        let mut problem = Unfit::Reserved;
        for index in 0..count {
            match read(index) {
                Ok(key) => return Ok(key),
                Err(unfit) => problem = unfit,
            }
        }
        Err(if count > 1 { Unfit::EachAlternative } else { problem })
    }

    /// Returns the key of an alternative, from the text of its components.
    fn key_of_components(&self, components: &[KeyComponent], text: &[u8]) -> Result<Key, Unfit> {
        static PEER: ClientAddress = ClientAddress::peer();
        let address = self.client_address().unwrap_or(&PEER);
        let mut buffer = Vec::new();
        let mut key;
        if let [component] = components {
            key = KeyWriter::of_one_part();
            write(component, text, address, &mut key)?;
        } else {
            let parts = split(text);
            if parts.len() != components.len() {
                return Err(Unfit::Count { given: parts.len(), expected: components.len() });
            }
            key = KeyWriter::of_parts();
            for (component, part) in components.iter().zip(parts) {
                unescape(part, &mut buffer)?;
                key.begin_part();
                write(component, &buffer, address, &mut key)?;
                key.end_part();
            }
        }
        Ok(key.finish())
    }

    #[cold]
    fn unfit(&self, text: &[u8], why: Unfit) -> UnfitKey {
        UnfitKey { key: excerpt(text), expression: self.clone(), why }
    }
}

/// A given key that doesn't fit the key expression of its limit. The message says what is expected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnfitKey {
    key: String,
    expression: KeyExpression,
    why: Unfit,
}

/// The fault of a given key.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Unfit {
    Empty,
    /// The key begins with NUL, but isn't one of the reserved keys.
    Reserved,
    Count {
        given: usize,
        expected: usize,
    },
    /// A `\` before another byte than `|` and `\`.
    Escape,
    Component(KeyComponent),
    EachAlternative,
}

impl fmt::Display for UnfitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, expression, why } = self;
        match why {
            Unfit::Empty if expression.is_default => f.write_str(
                "the key is empty: give an address such as 192.0.2.1, or any other text",
            ),
            Unfit::Empty => write!(f, "the key is empty, but the limit's key is `{expression}`"),
            Unfit::Reserved => {
                write!(f, "the key `{key}` begins with NUL: write another NUL before it")
            }
            Unfit::Count { given, expected } => write!(
                f,
                "the key `{key}` has {given} component{}, but `{expression}` has {expected}: join them with `|`; inside one, write `\\|` for `|` and `\\\\` for `\\`",
                if *given == 1 { "" } else { "s" }
            ),
            Unfit::Escape => write!(
                f,
                "the key `{key}` has a `\\` before another character than `|` and `\\`: write `\\\\` for a `\\` inside a component of `{expression}`"
            ),
            Unfit::Component(KeyComponent::Ip) => {
                static PEER: ClientAddress = ClientAddress::peer();
                let (ipv4, ipv6) = expression.client_address().unwrap_or(&PEER).prefixes();
                write!(
                    f,
                    "the key `{key}` has no address of one client for `ip` of `{expression}`: write one such as 192.0.2.1 or 2001:db8::1. A network needs at least {ipv4} bits of IPv4 or {ipv6} bits of IPv6"
                )
            }
            Unfit::Component(literal @ KeyComponent::Literal(_)) => write!(
                f,
                "the key `{key}` has another text than {literal} of `{expression}`: write that text"
            ),
            Unfit::Component(component) => write!(
                f,
                "the key `{key}` has no value for `{component}` of `{expression}`: write one, since a request without it has no such key"
            ),
            Unfit::EachAlternative => {
                write!(f, "the key `{key}` fits no alternative of `{expression}`: give ")?;
                for (index, components) in expression.alternatives().enumerate() {
                    let what = match components {
                        [KeyComponent::Ip] => "an address".to_owned(),
                        [component] => format!("a value of `{component}`"),
                        many => format!("{} components joined with `|`", many.len()),
                    };
                    write!(f, "{}{what}", if index > 0 { ", or " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl Error for UnfitKey {}

/// Writes a component that was given.
fn write(
    component: &KeyComponent,
    text: &[u8],
    address: &ClientAddress,
    key: &mut KeyWriter,
) -> Result<(), Unfit> {
    let is_written = match component {
        KeyComponent::Ip => match address.network_of_text(text) {
            Some(network) => {
                key.push_network(network);
                true
            }
            None => false,
        },
        KeyComponent::Host => extract::write_host(text, key).is_ok(),
        KeyComponent::Path => extract::write_path(text, key).is_ok(),
        KeyComponent::Header(_) => extract::write_text(Some(text.trim_ascii()), key).is_ok(),
        KeyComponent::Literal(literal) => {
            key.push(text);
            literal.as_bytes() == text
        }
        _ => extract::write_text(Some(text), key).is_ok(),
    };
    is_written.then_some(()).ok_or_else(|| Unfit::Component(component.clone()))
}

/// Returns whether a text can be an address. Every address begins with a hexadecimal digit, a colon
/// or a bracket, and has a colon or a period.
fn may_be_address(text: &[u8]) -> bool {
    let begins = |byte: &u8| byte.is_ascii_hexdigit() || b":[".contains(byte);
    text.trim_ascii_start().first().is_some_and(begins)
        && text.iter().any(|byte| b".:".contains(byte))
}

/// Returns the components of an alternative without the NULs that [`KeyWriter::finish`] and
/// [`Key::of_alternative`] put before a text that begins with one.
fn unreserved(text: &[u8], is_followed: bool) -> Result<&[u8], Unfit> {
    if text.first() != Some(&RESERVED) {
        return Ok(text);
    }
    let added = 1 + usize::from(is_followed);
    let rest = text.get(added..).filter(|rest| rest.first() == Some(&RESERVED));
    rest.filter(|_| text.iter().take(added).all(|&byte| byte == RESERVED)).ok_or(Unfit::Reserved)
}

/// Returns the components of a joined key, with their escapes.
fn split(text: &[u8]) -> Vec<&[u8]> {
    let mut is_escaped = false;
    let is_end = |&byte: &u8| {
        let is_end = byte == SEPARATOR && !is_escaped;
        is_escaped = byte == ESCAPE && !is_escaped;
        is_end
    };
    text.split(is_end).collect()
}

/// Writes a component of a joined key without its escapes.
fn unescape(part: &[u8], out: &mut Vec<u8>) -> Result<(), Unfit> {
    out.clear();
    // A component that begins with NUL has another one before it.
    let part = match part {
        [RESERVED, rest @ ..] if rest.first() == Some(&RESERVED) => rest,
        [RESERVED, ..] => return Err(Unfit::Reserved),
        plain => plain,
    };
    let mut bytes = part.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            ESCAPE => match bytes.next() {
                Some(&escaped @ (SEPARATOR | ESCAPE)) => escaped,
                _ => return Err(Unfit::Escape),
            },
            plain => plain,
        });
    }
    Ok(())
}

/// Returns the first 60 characters of a key, without control characters.
fn excerpt(text: &[u8]) -> String {
    const MAX_CHARS: usize = 60;
    // No character has more than four bytes.
    let beginning = text.get(..4 * MAX_CHARS).unwrap_or(text);
    let beginning = String::from_utf8_lossy(beginning);
    let shown: String = beginning.chars().take(MAX_CHARS).collect();
    let is_whole = beginning.chars().nth(MAX_CHARS).is_none() && text.len() <= 4 * MAX_CHARS;
    format!("{}{}", printable(&shown), if is_whole { "" } else { "…" })
}

#[cfg(test)]
mod tests;
