//! Which fields of a log's line make the key.

use std::fmt;
use std::str::FromStr;

use crate::keys::SEPARATOR;
use crate::record::{Field, Fields, Record};

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

impl KeyExpression {
    /// Returns the key of a request: one of its texts, or several joined in `buffer`.
    pub(crate) fn key<'k>(&self, record: &Record<'k>, buffer: &'k mut Vec<u8>) -> &'k [u8] {
        if let [field] = self.0[..] {
            return record.text(field);
        }
        buffer.clear();
        for (index, field) in self.0.iter().enumerate() {
            if index > 0 {
                buffer.push(SEPARATOR as u8);
            }
            buffer.extend_from_slice(record.text(*field));
        }
        buffer
    }

    /// Returns the fields that the key is made of.
    pub(crate) fn fields(&self) -> Fields {
        self.0.iter().copied().collect()
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
            let name =
                Field::ALL.iter().find(|(_, other)| other == field).map_or("", |(name, _)| name);
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
            let Some((_, field)) = Field::ALL.iter().find(|(name, _)| *name == word.trim()) else {
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
                Field::ALL.map(|(name, _)| name).join(", ")
            ),
        }
    }
}

impl std::error::Error for KeyExpressionError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessLine;
    use crate::times::Times;

    fn key(expression: &str, line: &[u8]) -> Vec<u8> {
        let expression: KeyExpression = expression.parse().unwrap();
        let record = AccessLine::read(line, &mut Times::default()).unwrap();
        let record = record.record(expression.fields());
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
            assert!(message.contains("host, user, method, path, status, agent"), "{message}");
        }
        assert!("host+host".parse::<KeyExpression>().unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn an_expression_prints_as_it_reads() {
        assert_eq!(" host + path ".parse::<KeyExpression>().unwrap().to_string(), "host+path");
    }
}
