//! Lines described by a regular expression of the user.

use std::fmt;
use std::str::FromStr;

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::role::{self, Form, Role};
use super::values::{Value, Values};
use crate::malformed::Malformed;
use crate::record::{Field, Fields};

/// A regular expression whose named groups are the parts of a line.
///
/// The groups `time` (or `start`) and `key` are required.
///
/// ```
/// use sluicegate_replay::Pattern;
///
/// assert!(r"^(?<time>\S+) (?<key>\S+)".parse::<Pattern>().is_ok());
/// let error = r"^(\S+) (\S+)".parse::<Pattern>().unwrap_err();
/// assert!(error.to_string().contains("group `time`"));
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    groups: Vec<(usize, Role, Form)>,
}

impl Pattern {
    pub(crate) fn locations(&self) -> CaptureLocations {
        self.regex.capture_locations()
    }

    /// Returns the parts of a line.
    pub(crate) fn read<'l>(
        &self,
        locations: &mut CaptureLocations,
        line: &'l [u8],
    ) -> Result<Values<'l>, Malformed> {
        self.regex.captures_read(locations, line).ok_or(Malformed::NoMatch)?;
        let mut values = Values::default();
        for (group, role, form) in &self.groups {
            // If several groups of a role match, such as alternatives, the last one is used.
            if let Some((start, end)) = locations.get(*group) {
                values.set(*role, Value::plain(&line[start..end], *form));
            }
        }
        Ok(values)
    }

    pub(crate) fn fields(&self) -> Fields {
        self.groups.iter().filter_map(|(_, role, _)| role.field()).collect()
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let regex = RegexBuilder::new(text).build();
        let regex = regex.map_err(|error| PatternError::Regex(error.to_string()))?;
        let mut groups = Vec::new();
        for (number, name) in regex.capture_names().enumerate() {
            let Some(name) = name else { continue };
            let Some((role, form)) = role::named(name) else {
                return Err(PatternError::Unknown(name.to_owned()));
            };
            groups.push((number, role, form));
        }
        let has = |role: Role| groups.iter().any(|(_, other, _)| *other == role);
        if !has(Role::Time) && !has(Role::Start) {
            return Err(PatternError::Missing("time"));
        }
        if !has(Role::Text(Field::Host)) {
            return Err(PatternError::Missing("key"));
        }
        Ok(Self { regex, groups })
    }
}

/// A pattern that can't be used.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PatternError {
    /// The regular expression is invalid.
    Regex(String),
    /// A required group is missing.
    Missing(&'static str),
    /// A group has an unknown name.
    Unknown(String),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Regex(error) => f.write_str(error),
            Self::Missing(group) => write!(
                f,
                "the pattern has no group `{group}`: write one for the time and one for the key, \
                 as in ^(?<time>\\S+) (?<key>\\S+)"
            ),
            Self::Unknown(group) => write!(
                f,
                "the pattern's group `{group}` has no meaning: name groups {}, or leave them unnamed",
                role::names()
            ),
        }
    }
}

impl std::error::Error for PatternError {}
