//! What can be wrong with numbers, names, policies and limits, said so that the reader knows
//! what to change. Failures of a store are in [`crate::StoreError`].

use std::error::Error;
use std::fmt;

/// A number outside the range that its place allows.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct InvalidNumber {
    /// What the number was meant to be, such as `cost`.
    pub what: &'static str,
    /// The number given.
    pub value: u64,
    /// The smallest number accepted.
    pub least: u64,
    /// The largest number accepted.
    pub most: u64,
}

impl InvalidNumber {
    pub(crate) const fn new(what: &'static str, value: u64, least: u64, most: u64) -> Self {
        Self { what, value, least, most }
    }
}

impl fmt::Display for InvalidNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, least, most } = self;
        write!(f, "{what} is {value}, but must be a whole number from {least} to {most}")
    }
}

impl Error for InvalidNumber {}

/// A length of time that can't be read.
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
            "month" | "year" => {
                format!(
                    "`{unit}` has no fixed length: only `fixed_window … calendar ZONE` accepts it"
                )
            }
            unit if unit.starts_with(['.', ',']) => {
                format!(
                    "`{text}` has a fraction: write a whole number of a smaller unit, such as 1500ms for 1.5s"
                )
            }
            unit => format!("`{unit}` is not a unit of time: write one of us, ms, s, min, h, d, w"),
        })
    }

    pub(crate) fn too_long(text: &str) -> Self {
        Self(format!("`{text}` is too long: the longest span is 2^53 − 1 microseconds (285 years)"))
    }
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for SpanError {}

/// A policy whose numbers can't be used, naming the parameter at fault and what it may be.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PolicyError {
    /// The parameter at fault, as the spec grammar spells it: `burst`, `slices`, `limit` ….
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

/// A name outside the characters and lengths that names may have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameError(pub(crate) String);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NameError {}

/// A set of policies that can't be one limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LimitError {
    /// A limit needs at least one policy.
    Empty,
    /// Two policies of one limit have the same name: the second is at `index` (from 0).
    DuplicateName {
        /// The name both have.
        name: crate::PolicyName,
        /// Where the second one stands, counted from 0.
        index: usize,
    },
    /// Two of the limits that are to be decided together have the same name, and so the same
    /// states.
    DuplicatePart {
        /// The name both have.
        name: crate::LimitName,
    },
    /// Two names of one limit have the same short hash in stored state.
    TagCollision {
        /// One of the names.
        first: crate::PolicyName,
        /// The other.
        second: crate::PolicyName,
    },
    /// More policies than one decision can take.
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
                "policy {} is called `{name}` like one before it: add `as NAME` with another name",
                index + 1
            ),
            Self::DuplicatePart { name } => write!(
                f,
                "limit `{name}` can't be decided together with itself: the limits of one decision need different names"
            ),
            Self::TagCollision { first, second } => write!(
                f,
                "the names `{first}` and `{second}` have the same short hash in stored state: rename one of them"
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
