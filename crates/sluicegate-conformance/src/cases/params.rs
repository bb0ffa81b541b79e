//! Conversion of a case's parameters to policies.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};
use sluicegate_core::{
    Algorithm, Limit, LogTier, MAX_EXACT, Policy, PolicyError, Rate, Span, Start, Window,
};

/// The parameters that may change under a live state.
const CHANGEABLE: [&str; 9] =
    ["limit", "capacity", "burst", "refill", "leak", "rate", "permits", "per_ms", "max_burst_ms"];

/// An algorithm with its parameters, as a case spells them.
#[derive(Clone, Debug)]
pub struct Subject {
    algorithm: String,
    params: Map<String, Value>,
}

/// Parameters that don't form a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BuildError {
    /// The parameters don't match the format: the case itself is wrong.
    Malformed(String),
    /// The parameters match the format, but no policy can have them.
    Refused {
        /// The parameter at fault, as the case spells it.
        parameter: String,
        /// The problem with the parameter.
        problem: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(problem) => f.write_str(problem),
            Self::Refused { parameter, problem } => write!(f, "{parameter}: {problem}"),
        }
    }
}

impl Error for BuildError {}

impl BuildError {
    fn refused(parameter: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Refused { parameter: parameter.into(), problem: problem.into() }
    }
}

impl Subject {
    /// Creates a subject from an algorithm and its parameters, without checking them.
    #[must_use]
    pub fn new(algorithm: &str, params: Map<String, Value>) -> Self {
        Self { algorithm: algorithm.to_owned(), params }
    }

    /// Returns the policies of one limit: a single policy, or those of an `all_of`.
    ///
    /// # Errors
    /// Returns an error if a parameter is unknown or can't be used.
    pub fn build(&self) -> Result<Vec<Policy>, BuildError> {
        if self.algorithm != "all_of" {
            return Ok(vec![build_one(&self.algorithm, &self.params)?]);
        }
        let params = Params::new(&self.algorithm, &self.params, &["policies"])?;
        let policies = params.list("policies")?;
        if policies.is_empty() || policies.len() > Limit::MAX_POLICIES {
            let problem =
                format!("{} given, but must be 1 to {}", policies.len(), Limit::MAX_POLICIES);
            return Err(BuildError::refused("policies", problem));
        }
        let member = |member: &Value| {
            let (algorithm, params) = member_parts(member)?;
            if matches!(algorithm, "guava_smooth_bursty" | "multi_sliding_log" | "all_of") {
                return Err(BuildError::refused(
                    "policies",
                    format!("`{algorithm}` can't be part of `all_of`"),
                ));
            }
            build_one(algorithm, params)
        };
        policies.iter().map(member).collect()
    }

    /// Returns `true` if `violated` means the tiers of a log rather than the policies of the limit.
    #[must_use]
    pub fn has_tiers(&self) -> bool {
        matches!(self.algorithm.as_str(), "multi_sliding_log" | "sliding_log")
    }

    /// Returns `true` if the case sets the parameter, at any depth.
    #[must_use]
    pub fn has(&self, parameter: &str) -> bool {
        fn holds(value: &Value, parameter: &str) -> bool {
            match value {
                Value::Object(map) => {
                    map.contains_key(parameter) || map.values().any(|value| holds(value, parameter))
                }
                Value::Array(list) => list.iter().any(|value| holds(value, parameter)),
                _ => false,
            }
        }
        holds(&Value::Object(self.params.clone()), parameter)
    }

    /// Changes numbers in place. Tiers and policies of a composite are changed in their order;
    /// `null` or `{}` leaves one unchanged. A number outside of them changes all that have it.
    ///
    /// # Errors
    /// Returns an error if a parameter doesn't exist or isn't permitted to change.
    pub fn set(&mut self, changes: &Map<String, Value>) -> Result<(), BuildError> {
        for (name, change) in changes {
            let (nested, inner) = match self.algorithm.as_str() {
                "all_of" => ("policies", Some("params")),
                "multi_sliding_log" => ("strategies", None),
                _ => {
                    set_one(&mut self.params, name, change)?;
                    continue;
                }
            };
            let members = self.params.get_mut(nested).and_then(Value::as_array_mut);
            let members = members.ok_or_else(|| missing(nested))?;
            let mut places = members.iter_mut().filter_map(|member| match inner {
                Some(inner) => member.get_mut(inner)?.as_object_mut(),
                None => member.as_object_mut(),
            });
            if name == nested {
                let changes = change
                    .as_array()
                    .ok_or_else(|| BuildError::Malformed(format!("`{name}` is no list")))?;
                for (index, change) in changes.iter().enumerate() {
                    let place = places.next().ok_or_else(|| {
                        BuildError::Malformed(format!(
                            "`{nested}` has no element {index} to change"
                        ))
                    })?;
                    let change = change.get("params").unwrap_or(change);
                    for (name, change) in change
                        .as_object()
                        .into_iter()
                        .flatten()
                        .filter(|(name, _)| *name != "algorithm")
                    {
                        set_one(place, name, change)?;
                    }
                }
            } else {
                let having: Vec<_> = places.filter(|place| place.contains_key(name)).collect();
                if having.is_empty() {
                    return Err(missing(name));
                }
                for place in having {
                    set_one(place, name, change)?;
                }
            }
        }
        Ok(())
    }
}

fn missing(parameter: &str) -> BuildError {
    BuildError::Malformed(format!(
        "`set_params` names `{parameter}`, which the policy doesn't have"
    ))
}

fn set_one(params: &mut Map<String, Value>, name: &str, change: &Value) -> Result<(), BuildError> {
    let current = params.get_mut(name).ok_or_else(|| missing(name))?;
    if current != change && !CHANGEABLE.contains(&name) {
        return Err(BuildError::Malformed(format!("`{name}` can't change under a live state")));
    }
    *current = change.clone();
    Ok(())
}

fn member_parts(member: &Value) -> Result<(&str, &Map<String, Value>), BuildError> {
    let malformed =
        || BuildError::Malformed(format!("`{member}` is not {{\"algorithm\",\"params\"}}"));
    let map = member.as_object().filter(|map| map.len() == 2).ok_or_else(malformed)?;
    let algorithm = map.get("algorithm").and_then(Value::as_str).ok_or_else(malformed)?;
    let params = map.get("params").and_then(Value::as_object).ok_or_else(malformed)?;
    Ok((algorithm, params))
}

/// Builds one policy.
fn build_one(algorithm: &str, params: &Map<String, Value>) -> Result<Policy, BuildError> {
    let known: &[&str] = match algorithm {
        "fixed_window" => &["limit", "window_ms", "anchor"],
        "sliding_log" | "sliding_counter" => &["limit", "window_ms"],
        "sliding_window" => &["limit", "window_ms", "sub_windows"],
        "token_bucket" => &["capacity", "refill", "per_ms"],
        "leaky_bucket" => &["capacity", "leak", "per_ms"],
        "gcra" => &["burst", "rate", "per_ms"],
        "guava_smooth_bursty" => &["permits", "per_ms", "max_burst_ms", "start"],
        "multi_sliding_log" => &["strategies"],
        _ => return Err(BuildError::Malformed(format!("unknown algorithm `{algorithm}`"))),
    };
    let params = Params::new(algorithm, params, known)?;
    let built = match algorithm {
        "fixed_window" => {
            let window = params.time("window_ms")?;
            let window = match params.word("anchor", "first_allowed")? {
                "epoch" => Window::Aligned(window),
                "first_allowed" => Window::FirstAdmitted(window),
                other => {
                    let problem = format!("`{other}` is neither `epoch` nor `first_allowed`");
                    return Err(BuildError::refused("anchor", problem));
                }
            };
            Algorithm::FixedWindow { limit: params.whole("limit")?, window }
        }
        "sliding_log" => Algorithm::SlidingLog { tiers: vec![params.tier()?] },
        "sliding_counter" => Algorithm::SlidingCounter {
            limit: params.whole("limit")?,
            window: params.time("window_ms")?,
        },
        "sliding_window" => Algorithm::SlidingWindow {
            limit: params.whole("limit")?,
            window: params.time("window_ms")?,
            slices: params.whole("sub_windows")?,
        },
        "token_bucket" => Algorithm::TokenBucket {
            rate: params.rate("refill")?,
            burst: params.whole("capacity")?,
        },
        "leaky_bucket" => Algorithm::LeakyBucket {
            rate: params.rate("leak")?,
            capacity: params.whole("capacity")?,
        },
        "gcra" => Algorithm::Gcra { rate: params.rate("rate")?, burst: params.whole("burst")? },
        "guava_smooth_bursty" => Algorithm::Smooth {
            rate: params.rate("permits")?,
            burst: params.time("max_burst_ms")?,
            start: match params.word("start", "empty")? {
                "empty" => Start::Empty,
                "full" => Start::Full,
                other => {
                    return Err(BuildError::refused(
                        "start",
                        format!("`{other}` is neither `empty` nor `full`"),
                    ));
                }
            },
        },
        _ => {
            let tier = |value: &Value| {
                let map = value.as_object().ok_or_else(|| {
                    BuildError::refused(
                        "strategies",
                        format!("`{value}` is not {{\"limit\",\"window_ms\"}}"),
                    )
                })?;
                Params::new("strategies", map, &["limit", "window_ms"])?.tier()
            };
            Algorithm::SlidingLog {
                tiers: params.list("strategies")?.iter().map(tier).collect::<Result<_, _>>()?,
            }
        }
    };
    Policy::new(built).map_err(|error| params.translate(&error))
}

/// The parameters of one policy.
struct Params<'a> {
    algorithm: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Params<'a> {
    fn new(
        algorithm: &'a str,
        map: &'a Map<String, Value>,
        known: &[&str],
    ) -> Result<Self, BuildError> {
        match map.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(BuildError::Malformed(format!(
                "`{algorithm}` has no parameter `{name}`: it has {}",
                known.join(", ")
            ))),
            None => Ok(Self { algorithm, map }),
        }
    }

    fn get(&self, name: &str) -> Result<&'a Value, BuildError> {
        self.map.get(name).ok_or_else(|| BuildError::refused(name, "is missing"))
    }

    fn whole(&self, name: &str) -> Result<u64, BuildError> {
        let value = self.get(name)?;
        value.as_u64().filter(|number| *number <= MAX_EXACT).ok_or_else(|| {
            let problem =
                format!("{value} is given, but must be a whole number from 0 to {MAX_EXACT}");
            BuildError::refused(name, problem)
        })
    }

    fn time(&self, name: &str) -> Result<Duration, BuildError> {
        Span::from_millis(self.whole(name)?)
            .map(Duration::from)
            .map_err(|error| BuildError::refused(name, error.to_string()))
    }

    fn rate(&self, count: &str) -> Result<Rate, BuildError> {
        Rate::new(self.whole(count)?, self.time("per_ms")?).map_err(|error| self.translate(&error))
    }

    fn tier(&self) -> Result<LogTier, BuildError> {
        Ok(LogTier { limit: self.whole("limit")?, window: self.time("window_ms")? })
    }

    fn word(&self, name: &str, default: &'a str) -> Result<&'a str, BuildError> {
        match self.map.get(name) {
            None => Ok(default),
            Some(value) => value
                .as_str()
                .ok_or_else(|| BuildError::refused(name, format!("{value} is no text"))),
        }
    }

    fn list(&self, name: &str) -> Result<&'a [Value], BuildError> {
        let value = self.get(name)?;
        value
            .as_array()
            .map(Vec::as_slice)
            .ok_or_else(|| BuildError::refused(name, format!("{value} is no list")))
    }

    /// Converts a policy's error to one that names the parameter as the case spells it.
    fn translate(&self, error: &PolicyError) -> BuildError {
        let parameter = match (self.algorithm, error.parameter) {
            ("token_bucket", "burst") => "capacity",
            ("token_bucket", "rate") => "refill",
            ("leaky_bucket", "rate") => "leak",
            ("guava_smooth_bursty", "rate") => "permits",
            ("guava_smooth_bursty", "burst") => "max_burst_ms",
            (_, "period") => "per_ms",
            (_, "window") => "window_ms",
            (_, "slices") => "sub_windows",
            (_, "tiers") => "strategies",
            (_, parameter) => parameter,
        };
        let message = error.to_string();
        let problem = message.strip_prefix(&format!("{}: ", error.parameter)).unwrap_or(&message);
        BuildError::refused(parameter, problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(algorithm: &str, params: &str) -> Subject {
        Subject::new(algorithm, serde_json::from_str(params).unwrap())
    }

    #[test]
    fn what_no_policy_can_have_is_refused_by_the_name_the_case_uses() {
        for (algorithm, params, parameter) in [
            ("sliding_window", r#"{"limit":4,"window_ms":1000,"sub_windows":3}"#, "sub_windows"),
            ("sliding_window", r#"{"limit":4,"window_ms":1000,"sub_windows":0}"#, "sub_windows"),
            ("sliding_log", r#"{"limit":4,"window_ms":0}"#, "window_ms"),
            ("sliding_log", r#"{"limit":65537,"window_ms":1}"#, "limit"),
            ("sliding_counter", r#"{"limit":4,"window_ms":0}"#, "window_ms"),
            ("fixed_window", r#"{"limit":4,"window_ms":0,"anchor":"epoch"}"#, "window_ms"),
            ("fixed_window", r#"{"limit":-1,"window_ms":5,"anchor":"epoch"}"#, "limit"),
            ("fixed_window", r#"{"limit":1,"window_ms":5,"anchor":"monday"}"#, "anchor"),
            ("token_bucket", r#"{"capacity":1,"refill":1,"per_ms":0}"#, "per_ms"),
            ("token_bucket", r#"{"capacity":1.5,"refill":1,"per_ms":1}"#, "capacity"),
            (
                "token_bucket",
                r#"{"capacity":9007199254740991,"refill":1,"per_ms":1000}"#,
                "capacity",
            ),
            ("leaky_bucket", r#"{"capacity":1,"leak":"1","per_ms":1}"#, "leak"),
            ("gcra", r#"{"burst":1,"rate":-5,"per_ms":1}"#, "rate"),
            (
                "guava_smooth_bursty",
                r#"{"permits":1,"per_ms":1,"max_burst_ms":9007199254740991,"start":"full"}"#,
                "max_burst_ms",
            ),
            ("multi_sliding_log", r#"{"strategies":[]}"#, "strategies"),
            ("multi_sliding_log", r#"{"strategies":[{"limit":1,"window_ms":0}]}"#, "window_ms"),
            ("all_of", r#"{"policies":[]}"#, "policies"),
            (
                "all_of",
                r#"{"policies":[{"algorithm":"all_of","params":{"policies":[]}}]}"#,
                "policies",
            ),
        ] {
            match subject(algorithm, params).build() {
                Err(BuildError::Refused { parameter: named, .. }) => {
                    assert!(named == parameter, "{algorithm} {params}: {named}");
                }
                other => panic!("{algorithm} {params}: {other:?}"),
            }
        }
    }

    #[test]
    fn numbers_change_in_place() {
        let mut composite = subject(
            "all_of",
            r#"{"policies":[{"algorithm":"token_bucket","params":{"capacity":5,"refill":1,"per_ms":1000}},
                {"algorithm":"sliding_log","params":{"limit":6,"window_ms":60000}}]}"#,
        );
        for (change, now) in [
            (
                r#"{"policies":[{},{"params":{"limit":7}}]}"#,
                ["token_bucket 1/s burst 5", "sliding_log 7/min"],
            ),
            (r#"{"policies":[{"capacity":6}]}"#, ["token_bucket 1/s burst 6", "sliding_log 7/min"]),
            (r#"{"limit":8}"#, ["token_bucket 1/s burst 6", "sliding_log 8/min"]),
        ] {
            composite.set(&serde_json::from_str(change).unwrap()).unwrap();
            let expected: Vec<Policy> = now.iter().map(|spec| spec.parse().unwrap()).collect();
            assert_eq!(composite.build().unwrap(), expected, "{change}");
        }
        let change = r#"{"policies":[{},{"window_ms":1}]}"#;
        assert!(composite.set(&serde_json::from_str(change).unwrap()).is_err());
    }
}
