//! The case format.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use sluicegate_core::{MAX_EXACT, printable};

use super::params::{BuildError, Subject};

/// The origin of a case's times: a whole number of days after the epoch. Windows aligned to the
/// epoch thus begin where the case says.
const ORIGIN_MS: i64 = 1_699_920_000_000;

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name, which failures quote.
    pub id: String,
    /// The line in its file, from 1.
    pub line: usize,
    /// The algorithm and its parameters.
    pub subject: Subject,
    /// Whether the parameters must be refused.
    pub invalid: bool,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// One event of a case.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request.
    Request {
        /// Microseconds since the Unix epoch.
        at_us: u64,
        /// The key; `None` for the case's only one.
        key: Option<String>,
        /// The cost, at least 1.
        cost: u64,
        /// The longest wait the caller accepts, in microseconds.
        timeout_us: u64,
        /// The required answer.
        expected: Expected,
    },
    /// New numbers for the live policy.
    SetParams(Map<String, Value>),
}

/// The required answer; only what is `Some` is compared.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Whether the request passes.
    pub expect: Expect,
    /// The largest cost that would still pass; `Some(None)` for no bound.
    pub remaining: Option<Option<u64>>,
    /// On a denial, whole milliseconds; `Some(None)` for never.
    pub retry_after_ms: Option<Option<u64>>,
    /// On an allow, whole milliseconds.
    pub wait_ms: Option<u64>,
    /// The parts that refused: tiers of a log, policies of a composite.
    pub violated: Option<Vec<usize>>,
}

/// The two verdicts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// The request passes.
    Allow,
    /// The request is refused.
    Deny,
}

impl Expect {
    /// Returns the verdict as written in cases.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// A line that is not a case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadError {
    /// The line, from 1.
    pub line: usize,
    problem: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl Error for ReadError {}

/// Reads all cases of a file. Skips blank lines, and a byte order mark before the first line.
///
/// # Errors
/// Returns an error for the first line that is not a valid case. Such a line isn't a JSON object,
/// has a field that is missing, unknown or out of range, or names an unknown algorithm.
pub fn read(text: &str) -> Result<Vec<Case>, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty());
    lines
        .map(|(index, text)| {
            let line = index + 1;
            read_case(line, text).map_err(|problem| ReadError { line, problem })
        })
        .collect()
}

fn read_case(line: usize, text: &str) -> Result<Case, String> {
    if !text.trim_start().starts_with('{') {
        return Err("a case is a JSON object".to_owned());
    }
    let raw: RawCase = serde_json::from_str(text).map_err(|error| {
        // The parser received only this line, so it always reports line 1.
        let column = error.column();
        let message = error.to_string();
        let message =
            message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        format!("column {column}: {}", printable(message))
    })?;
    let id = printable(&raw.id);
    let subject = Subject::new(&raw.algorithm, raw.params);
    match subject.build() {
        Err(BuildError::Malformed(problem)) => {
            return Err(format!("case `{id}`: {}", printable(&problem)));
        }
        Err(BuildError::Refused { parameter, .. }) if !raw.invalid && !subject.has(&parameter) => {
            return Err(format!("case `{id}`: the parameter `{parameter}` is missing"));
        }
        _ => {}
    }
    let mut changed = subject.clone();
    let mut events = Vec::with_capacity(raw.events.len());
    for (index, event) in raw.events.into_iter().enumerate() {
        let event = event.0.into_event(&mut changed);
        events.push(
            event.map_err(|problem| {
                format!("case `{id}`, event {index}: {}", printable(&problem))
            })?,
        );
    }
    Ok(Case { id: raw.id, line, subject, invalid: raw.invalid, events })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    id: String,
    algorithm: String,
    params: Map<String, Value>,
    #[serde(default)]
    events: Vec<Object<RawEvent>>,
    #[serde(default)]
    invalid: bool,
    #[serde(default, rename = "why")]
    _why: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    t_ms: i64,
    cost: Option<u64>,
    key: Option<String>,
    timeout_ms: Option<u64>,
    expect: Option<Expect>,
    #[serde(default, deserialize_with = "present")]
    remaining: Option<Option<u64>>,
    #[serde(default, deserialize_with = "present")]
    retry_after_ms: Option<Option<u64>>,
    wait_ms: Option<u64>,
    violated: Option<Vec<usize>>,
    set_params: Option<Map<String, Value>>,
}

/// A value that must be written as an object. By default, serde also accepts an array of the fields
/// in order.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// Distinguishes `null` from an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl RawEvent {
    fn into_event(self, subject: &mut Subject) -> Result<Event, String> {
        if let Some(params) = self.set_params {
            if self.expect.is_some() {
                return Err("`set_params` and `expect` are two events: write two".to_owned());
            }
            subject.set(&params).map_err(|error| error.to_string())?;
            return Ok(Event::SetParams(params));
        }
        let expect = self.expect.ok_or("missing field `expect`: write `allow` or `deny`")?;
        let cost = self.cost.unwrap_or(1);
        if !(1..=MAX_EXACT).contains(&cost) {
            return Err(format!(
                "cost is {cost}, but must be a whole number from 1 to {MAX_EXACT}"
            ));
        }
        let micros = ORIGIN_MS.checked_add(self.t_ms).and_then(|millis| millis.checked_mul(1_000));
        let at_us = micros
            .and_then(|micros| u64::try_from(micros).ok())
            .filter(|micros| *micros <= MAX_EXACT)
            .ok_or_else(|| format!("t_ms is {}, which is before 1970 or after 2255", self.t_ms))?;
        Ok(Event::Request {
            at_us,
            key: self.key,
            cost,
            // A timeout above the longest possible wait has the effect of that maximum.
            timeout_us: self.timeout_ms.unwrap_or(0).saturating_mul(1_000).min(MAX_EXACT),
            expected: Expected {
                expect,
                remaining: self.remaining,
                retry_after_ms: self.retry_after_ms,
                wait_ms: self.wait_ms,
                violated: self.violated,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: &str) -> String {
        read(&format!("\n{line}\n")).unwrap_err().to_string()
    }

    #[test]
    fn a_line_that_is_no_case_is_named_with_what_is_wrong() {
        let case = r#"{"id":"x","algorithm":"sliding_log","params":{"limit":1,"window_ms":5},"events":[EVENT]}"#;
        for (event, words) in [
            (r#"{"t_ms":0,"cost":1,"expect":"allow","left":1}"#, "unknown field `left`"),
            (r#"{"t_ms":0,"cost":1}"#, "missing field `expect`"),
            (r#"{"t_ms":0,"cost":0,"expect":"allow"}"#, "cost is 0"),
            (r#"{"t_ms":0.5,"cost":1,"expect":"allow"}"#, "invalid type"),
            (r#"{"t_ms":0,"cost":1,"expect":"perhaps"}"#, "perhaps"),
            (r#"{"t_ms":-1699920000001,"cost":1,"expect":"deny"}"#, "before 1970"),
            (r#"{"t_ms":0,"set_params":{"window_ms":6}}"#, "window_ms"),
            (r#"{"t_ms":0,"set_params":{"burst":6}}"#, "burst"),
            (r#"[0,1,null,null,"allow"]"#, "expected a JSON object"),
        ] {
            let message = problem(&case.replace("EVENT", event));
            assert!(message.starts_with("line 2: ") && message.contains(words), "{message}");
        }
        assert!(problem("{").contains("column 1"));
        for line in [r#"["x","sliding_log",{"limit":1,"window_ms":5},[],false]"#, "5", "null"] {
            assert_eq!(problem(line), "line 2: a case is a JSON object");
        }
        assert!(problem(r#"{"id":"x","algorithm":"dice","params":{}}"#).contains("dice"));
        assert!(
            problem(r#"{"id":"x","algorithm":"sliding_log","params":{"limit":1}}"#)
                .contains("window_ms")
        );
        let unknown =
            r#"{"id":"x","algorithm":"sliding_log","params":{"limit":1,"window_ms":1,"per_ms":1}}"#;
        assert!(problem(unknown).contains("per_ms"));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_case() {
        let case = r#"{"id":"x","algorithm":"sliding_log","params":{"limit":1,"window_ms":5}}"#;
        assert_eq!(read(&format!("\u{feff}{case}")).unwrap().len(), 1);
        assert!(read("\u{feff}").unwrap().is_empty());
    }

    #[test]
    fn what_a_terminal_would_act_on_is_shown_as_an_escape() {
        let case = r#"{"id":"\u001b[2J\n","algorithm":"dice\u0007","params":{}}"#;
        let message = problem(case);
        assert!(message.contains("`\\u{1b}[2J\\n`"), "{message}");
        assert!(!message.chars().any(char::is_control), "{message}");
        let message = problem(r#"{"id":"x","\u001b":1}"#);
        assert!(message.contains("`\\u{1b}`"), "{message}");
    }

    #[test]
    fn null_is_not_the_same_as_absent() {
        let line = r#"{"id":"x","algorithm":"sliding_log","params":{"limit":0,"window_ms":5},
            "events":[{"t_ms":0,"cost":1,"expect":"deny","retry_after_ms":null}]}"#;
        let cases = read(&line.replace('\n', " ")).unwrap();
        let Event::Request { expected, .. } = &cases[0].events[0] else { panic!("a request") };
        assert_eq!((expected.retry_after_ms, expected.remaining), (Some(None), None));
    }
}
