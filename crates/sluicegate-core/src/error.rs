//! Errors about numbers, names, policies and limits. Each message says what to change. The error
//! for a failed store is [`crate::StoreError`].

use std::error::Error;
use std::fmt;

/// A number outside its allowed range.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct InvalidNumber {
    /// What the number is, such as `cost`.
    pub what: &'static str,
    /// The number given.
    pub value: u64,
    /// The smallest number accepted.
    pub min: u64,
    /// The largest number accepted.
    pub max: u64,
}

impl InvalidNumber {
    pub(crate) const fn new(what: &'static str, value: u64, min: u64, max: u64) -> Self {
        Self { what, value, min, max }
    }
}

impl fmt::Display for InvalidNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, min, max } = self;
        write!(f, "{what} is {value}, but must be a whole number from {min} to {max}")
    }
}

impl Error for InvalidNumber {}

/// A length of time that can't be parsed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpanError(String);

impl SpanError {
    pub(crate) fn unit(text: &str, unit: &str) -> Self {
        Self(match unit {
            "" => format!(
                "`{text}` has no unit: write one of us, ms, s, min, h, d, w after the number"
            ),
            "m" => {
                format!("`{text}` is ambiguous: write `min` for minutes or `ms` for milliseconds")
            }
            "month" | "months" | "year" | "years" => {
                let unit = unit.trim_end_matches('s');
                format!(
                    "`{unit}` has no fixed length: only `fixed_window … calendar ZONE` accepts it"
                )
            }
            unit if unit.starts_with(['.', ',']) => {
                format!(
                    "`{text}` has a fraction: write a whole number of a smaller unit, such as 1500ms for 1.5s"
                )
            }
            unit => {
                let hint = match unit_called(unit) {
                    Some(meant) => format!("write `{meant}`"),
                    None => "write one of us, ms, s, min, h, d, w".to_owned(),
                };
                format!("`{unit}` is not a unit of time: {hint}")
            }
        })
    }

    pub(crate) fn too_long(text: &str) -> Self {
        Self(format!("`{text}` is too long: the longest span is 2^53 − 1 microseconds (285 years)"))
    }
}

/// The unit of a span that has this other name.
fn unit_called(name: &str) -> Option<&'static str> {
    const NAMES: [(&str, &[&str]); 7] = [
        ("us", &["us", "µs", "μs", "usec", "micros", "microsecond", "microseconds"]),
        ("ms", &["ms", "msec", "millis", "millisecond", "milliseconds"]),
        ("s", &["s", "sec", "secs", "second", "seconds"]),
        ("min", &["min", "mins", "minute", "minutes"]),
        ("h", &["h", "hr", "hrs", "hour", "hours"]),
        ("d", &["d", "day", "days"]),
        ("w", &["w", "wk", "week", "weeks"]),
    ];
    let name = name.trim().to_lowercase();
    NAMES.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(unit, _)| *unit)
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for SpanError {}

/// A policy with an invalid parameter: which one, and what it may be.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PolicyError {
    /// The invalid parameter, as the spec grammar spells it: `burst`, `slices`, `limit` ….
    pub parameter: &'static str,
    problem: String,
}

impl PolicyError {
    pub(crate) fn new(parameter: &'static str, problem: impl Into<String>) -> Self {
        Self { parameter, problem: problem.into() }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.parameter, self.problem)
    }
}

impl Error for PolicyError {}

/// A name that is too long or has characters that names may not have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameError(pub(crate) String);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NameError {}

/// Why a set of policies can't form a limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LimitError {
    /// There is no policy.
    Empty,
    /// Two policies have the same name.
    DuplicateName {
        /// Their name.
        name: crate::PolicyName,
        /// The index of the second one, from 0.
        index: usize,
    },
    /// Two of the limits to be decided together have the same name, and hence the same states.
    DuplicatePart {
        /// Their name.
        name: crate::LimitName,
    },
    /// The names of two policies have the same short hash in the stored state.
    TagCollision {
        /// One of the names.
        first: crate::PolicyName,
        /// The other.
        second: crate::PolicyName,
    },
    /// There are more policies than one decision can take.
    TooMany {
        /// How many were given.
        count: usize,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("a limit needs at least one policy, such as `token_bucket 10/s`")
            }
            Self::DuplicateName { name, index } => write!(
                f,
                "policy {} has the name `{name}`, which an earlier policy has: add `as NAME` with another name",
                index + 1
            ),
            Self::DuplicatePart { name } => write!(
                f,
                "limit `{name}` is listed twice: limits that are decided together need different names"
            ),
            Self::TagCollision { first, second } => write!(
                f,
                "the names `{first}` and `{second}` have the same short hash in the stored state: rename one of them"
            ),
            Self::TooMany { count } => {
                write!(
                    f,
                    "a limit has at most {} policies, not {count}",
                    crate::Limit::MAX_POLICIES
                )
            }
        }
    }
}

impl Error for LimitError {}

#[cfg(test)]
mod tests {
    use crate::{Limit, LimitError, LimitName, Policy};

    #[test]
    fn policies_that_form_no_limit_say_why() {
        let name = || "api".parse::<LimitName>().unwrap();
        let policies = |specs: &[&str]| -> Vec<Policy> {
            specs.iter().map(|spec| spec.parse().unwrap()).collect()
        };
        let refused = |policies| Limit::new(name(), policies).unwrap_err().to_string();
        assert!(refused(Vec::new()).contains("at least one policy"));
        assert_eq!(
            refused(policies(&["gcra 1/s as a", "gcra 2/s as a"])),
            "policy 2 has the name `a`, which an earlier policy has: add `as NAME` with another name"
        );
        let many: Vec<String> = (0..65).map(|each| format!("gcra 1/s as p{each}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(refused(policies(&many)), "a limit has at most 64 policies, not 65");
        let [first, second] = ["a", "b"].map(|name| name.parse().unwrap());
        let collision = LimitError::TagCollision { first, second }.to_string();
        assert!(collision.contains("`a` and `b` have the same short hash"), "{collision}");
        let twice = LimitError::DuplicatePart { name: name() }.to_string();
        assert!(twice.contains("`api` is listed twice"), "{twice}");
    }
}
