//! The components of keys.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;

/// A component of a key: a part of the request, or a fixed text.
///
/// Prints in the syntax of a [`KeyExpression`](crate::KeyExpression).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum KeyComponent {
    /// `ip`: the client's network, as [`ClientAddress`](crate::ClientAddress) finds it.
    Ip,
    /// `user`: the user that the application identified.
    User,
    /// `method`: the method, as sent.
    Method,
    /// `path`: the path, with normalized percent escapes. A client chooses it freely, so
    /// [`Route`](Self::Route) is usually the better choice.
    Path,
    /// `route`: the pattern of the matched route, such as `/users/{id}`.
    Route,
    /// `host`: the requested host in lower case, without port and final dot.
    Host,
    /// `header:NAME`: the value of a header field.
    Header(HeaderName),
    /// `cookie:NAME`: the value of a cookie, without quotes and percent escapes. The name may be any
    /// text.
    Cookie(Arc<str>),
    /// `query:NAME`: the value of a query parameter, decoded like a form. The name may be any text.
    Query(Arc<str>),
    /// `'text'`: this text.
    Literal(Arc<str>),
    /// A value that a function extracts. Key expressions have no syntax for it.
    Custom,
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

/// Returns whether a name with this character needs no quotes.
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
