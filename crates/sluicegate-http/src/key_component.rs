//! What a key can be made of.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;

/// One thing that a request has and a key can be made of.
///
/// Prints as a [`KeyExpression`](crate::KeyExpression) has it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum KeyComponent {
    /// `ip`: the client's network, as [`ClientAddress`](crate::ClientAddress) finds it.
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
