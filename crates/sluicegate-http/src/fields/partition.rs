//! The partition of a quota.

use std::error::Error;
use std::fmt;

use crate::key_component::KeyComponent;

/// The partition of a limit's quota, for `RateLimit-Partition`: a list of dimensions. Each varies by
/// request or applies to a single value.
///
/// The draft of the standard defines the dimensions `user_id`, `client_id` and `method`. Clients
/// treat others as opaque.
///
/// ```
/// use sluicegate_http::{KeyExpression, Partition};
///
/// let key: KeyExpression = "user+method".parse()?;
/// assert_eq!(Partition::of(&key).to_string(), ";user_id;method");
/// let reads = Partition::default().varies_by("client_id")?.applies_to("method", "GET")?;
/// assert_eq!(reads.to_string(), ";client_id;method=GET");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Partition {
    /// Names and serialized values; a dimension that varies has no value.
    dimensions: Vec<(String, Option<String>)>,
}

impl Partition {
    /// Returns the dimensions of a key with these components.
    pub(crate) fn of_components(components: &[KeyComponent]) -> Self {
        let mut partition = Self::default();
        for component in components {
            let name = match component {
                KeyComponent::User => "user_id",
                KeyComponent::Method => "method",
                KeyComponent::Ip => "sluicegate-ip",
                KeyComponent::Path => "sluicegate-path",
                KeyComponent::Route => "sluicegate-route",
                KeyComponent::Host => "sluicegate-host",
                KeyComponent::Header(_) => "sluicegate-header",
                KeyComponent::Cookie(_) => "sluicegate-cookie",
                KeyComponent::Query(_) => "sluicegate-query",
                KeyComponent::Custom => "sluicegate-custom",
                KeyComponent::Literal(_) => continue,
            };
            if !partition.has(name) {
                partition.dimensions.push((name.to_owned(), None));
            }
        }
        partition
    }

    /// Adds a dimension that varies by request.
    ///
    /// # Errors
    /// Returns an error if the partition already has the dimension, or if the name is invalid. A name
    /// is a letter `a`–`z` or `*`, followed by letters `a`–`z`, digits and `_ - . *`.
    pub fn varies_by(mut self, dimension: &str) -> Result<Self, PartitionError> {
        self.check_name(dimension)?;
        self.dimensions.push((dimension.to_owned(), None));
        Ok(self)
    }

    /// Adds a dimension for which the partition applies to `value` only.
    ///
    /// # Errors
    /// Returns an error under the conditions of [`Partition::varies_by`], or if the value has
    /// characters other than printable ASCII.
    pub fn applies_to(mut self, dimension: &str, value: &str) -> Result<Self, PartitionError> {
        self.check_name(dimension)?;
        if value.bytes().any(|byte| !(0x20..0x7f).contains(&byte)) {
            return Err(PartitionError(format!(
                "the value `{}` of `{dimension}` is invalid: write printable ASCII characters only",
                value.escape_debug()
            )));
        }
        self.dimensions.push((dimension.to_owned(), Some(serialized(value))));
        Ok(self)
    }

    /// Returns the dimensions of both partitions.
    pub(crate) fn and(mut self, other: Self) -> Self {
        let new = other.dimensions.into_iter().filter(|(name, _)| !self.has(name));
        let new: Vec<_> = new.collect();
        self.dimensions.extend(new);
        self
    }

    /// Returns whether there are no dimensions, so that all requests share the quota.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dimensions.is_empty()
    }

    fn has(&self, dimension: &str) -> bool {
        self.dimensions.iter().any(|(name, _)| name == dimension)
    }

    fn check_name(&self, dimension: &str) -> Result<(), PartitionError> {
        let first = dimension.starts_with(|first: char| first.is_ascii_lowercase() || first == '*');
        let is_allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        };
        if !first || !dimension.bytes().all(is_allowed) {
            return Err(PartitionError(format!(
                "`{}` is not the name of a dimension: write a letter from a to z, then letters, digits and _ - . *",
                dimension.escape_debug()
            )));
        }
        if self.has(dimension) {
            return Err(PartitionError(format!(
                "the dimension `{dimension}` occurs twice: name each once"
            )));
        }
        Ok(())
    }
}

impl fmt::Display for Partition {
    /// Returns the dimensions as parameters in `RateLimit-Partition`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dimensions.iter().try_for_each(|(name, value)| match value {
            None => write!(f, ";{name}"),
            Some(value) => write!(f, ";{name}={value}"),
        })
    }
}

/// An invalid dimension. The message says what to write instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartitionError(String);

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for PartitionError {}

/// Serializes a value as a token if possible, and otherwise as a string in quotes.
fn serialized(value: &str) -> String {
    let first = value.starts_with(|first: char| first.is_ascii_alphabetic() || first == '*');
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    if first && value.bytes().all(is_allowed) {
        return value.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_that_no_field_can_have_is_refused() {
        for name in ["", "User", "1st", "a b", "a=1", "é"] {
            assert!(Partition::default().varies_by(name).is_err(), "{name}");
        }
        let twice = Partition::default().varies_by("a").unwrap().applies_to("a", "b");
        assert_eq!(
            twice.unwrap_err().to_string(),
            "the dimension `a` occurs twice: name each once"
        );
        assert!(Partition::default().applies_to("a", "\u{1f}").is_err());
        assert!(Partition::default().applies_to("a", "é").is_err());
    }

    #[test]
    fn components_without_a_dimension_of_their_own_are_named_with_a_prefix() {
        let key = "ip+header:a+header:b+'x'+route".parse().unwrap();
        assert_eq!(
            Partition::of(&key).to_string(),
            ";sluicegate-ip;sluicegate-header;sluicegate-route"
        );
        assert!(Partition::of(&"'all'".parse().unwrap()).is_empty());
    }
}
