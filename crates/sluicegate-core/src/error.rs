//! Errors about numbers, names and policies. Each message says what to change. The error for a
//! failed store is [`crate::StoreError`].

use std::error::Error;
use std::fmt;

/// A number outside its allowed range.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct InvalidNumber {
    /// The meaning of the number, such as `cost`.
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

/// Returns the unit of a span for an alternative name.
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

/// A policy with an invalid parameter: its name, and the allowed values.
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

/// A name that is too long or has invalid characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameError(pub(crate) String);

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NameError {}
