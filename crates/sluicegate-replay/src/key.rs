//! Which fields of a log's line make the key.

use std::fmt;
use std::str::FromStr;

use crate::access::AccessLine;
use crate::keys::SEPARATOR;

/// The key of a request: fields of its line, joined.
///
/// The fields are `host` (the default), `user`, `method`, `path` (as logged, with its query),
/// `status` and `agent`. One that a torn line lacks is empty.
///
/// ```
/// use sluicegate_replay::KeyExpression;
///
/// let key: KeyExpression = "host + path".parse()?;
/// assert_eq!(key.to_string(), "host+path");
/// assert!("referer".parse::<KeyExpression>().is_err());
/// # Ok::<(), sluicegate_replay::KeyExpressionError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyExpression(Vec<Field>);

/// What a line of an access log tells of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Field {
    Agent,
    Host,
    Method,
    Path,
    Status,
    User,
}

/// The names of the fields, in the order of a line.
const FIELDS: [(&str, Field); 6] = [
    ("host", Field::Host),
    ("user", Field::User),
    ("method", Field::Method),
    ("path", Field::Path),
    ("status", Field::Status),
    ("agent", Field::Agent),
];

impl KeyExpression {
    /// The key of a line: a part of the line, or put together in `buffer`.
    pub(crate) fn key<'k>(&self, line: &AccessLine<'k>, buffer: &'k mut Vec<u8>) -> &'k [u8] {
        match self.0[..] {
            [Field::Host] => return line.host,
            [Field::User] => return line.user,
            _ => {}
        }
        let exchange = line.exchange();
        buffer.clear();
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                buffer.push(SEPARATOR as u8);
            }
            buffer.extend_from_slice(match field {
                Field::Agent => exchange.agent,
                Field::Host => line.host,
                Field::Method => exchange.method,
                Field::Path => exchange.path,
                Field::Status => exchange.status,
                Field::User => line.user,
            });
        }
        buffer
    }
}

impl Default for KeyExpression {
    fn default() -> Self {
        Self(vec![Field::Host])
    }
}

impl fmt::Display for KeyExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.0.iter().enumerate() {
            let name = FIELDS.iter().find(|(_, other)| other == field).map_or("", |(name, _)| name);
            write!(f, "{}{name}", if index > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for KeyExpression {
    type Err = KeyExpressionError;

    fn from_str(text: &str) -> Result<Self, KeyExpressionError> {
        let mut fields = Vec::new();
        for word in text.split('+') {
            let Some((_, field)) = FIELDS.iter().find(|(name, _)| *name == word.trim()) else {
                return Err(KeyExpressionError::Unknown(word.trim().to_owned()));
            };
            if fields.contains(field) {
                return Err(KeyExpressionError::Repeated(word.trim().to_owned()));
            }
            fields.push(*field);
        }
        Ok(Self(fields))
    }
}

/// A key expression that can't be read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum KeyExpressionError {
    /// A field that is there twice.
    Repeated(String),
    /// A word that is no field.
    Unknown(String),
}

impl fmt::Display for KeyExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated(field) => write!(f, "`{field}` is listed twice: name each field once"),
            Self::Unknown(field) => write!(
                f,
                "`{}` is not a field of an access log: join some of {} with `+`",
                field.escape_debug(),
                FIELDS.map(|(name, _)| name).join(", ")
            ),
        }
    }
}

impl std::error::Error for KeyExpressionError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamps;

    #[test]
    fn fields_join_in_the_order_asked_for() {
        let line = br#"h - u [17/May/2015:10:05:03 +0000] "GET /p HTTP/1.1" 200 1 "-" "a b""#;
        let line = AccessLine::read(line, &mut Stamps::default()).unwrap();
        for (expression, key) in [
            ("host", &b"h"[..]),
            ("user", b"u"),
            ("status+host", b"200\nh"),
            ("host+user+method+path+status+agent", b"h\nu\nGET\n/p\n200\na b"),
        ] {
            let expression: KeyExpression = expression.parse().unwrap();
            assert_eq!(expression.key(&line, &mut Vec::new()), key, "{expression}");
        }
    }

    #[test]
    fn a_field_that_a_torn_line_lacks_is_empty() {
        let line = br#"h - - [17/May/2015:10:05:03 +0000] "GE"#;
        let line = AccessLine::read(line, &mut Stamps::default()).unwrap();
        let expression: KeyExpression = "method+path+agent".parse().unwrap();
        assert_eq!(expression.key(&line, &mut Vec::new()), b"GE\n\n");
    }

    #[test]
    fn an_unknown_field_is_named_with_those_there_are() {
        for (text, named) in
            [("host+referer", "`referer`"), ("", "``"), ("host,path", "`host,path`")]
        {
            let message = text.parse::<KeyExpression>().unwrap_err().to_string();
            assert!(message.contains(named), "{message}");
            assert!(message.contains("host, user, method, path, status, agent"), "{message}");
        }
        assert!("host+host".parse::<KeyExpression>().unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn an_expression_prints_as_it_reads() {
        assert_eq!(" host + path ".parse::<KeyExpression>().unwrap().to_string(), "host+path");
    }
}
