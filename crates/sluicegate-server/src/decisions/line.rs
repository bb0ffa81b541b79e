//! A row as a line of JSON, in the decision log and in the list of the newest decisions.

use std::borrow::Cow;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use sluicegate::Outcome;
use sluicegate::config::Sample;
use sluicegate::policy::LimitName;
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate_client::json::{PAUSED, Rfc3339, STORE_FULL};

use super::key_form::WrittenKey;
use super::row::{Row, RowCost};
use crate::printable_json::{is_plain, printable_json};
use crate::trace_context::TraceId;

/// The parts of a line that aren't of its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineTerms<'a> {
    pub(super) key: &'a WrittenKey<'a>,
    pub(super) client: Option<&'a str>,
    /// The trace that the request belongs to.
    pub(super) trace: Option<TraceId>,
    /// The share of allowed decisions that is written; `None` if all are.
    pub(super) sample: Option<&'a RawValue>,
    /// The number of lines that were left out since the previous line.
    pub(super) left_out: u64,
}

/// Appends a row to `bytes`, without a line break.
pub(super) fn append(row: &Row<'_>, terms: &LineTerms<'_>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    // Writing to a `Vec` can't fail, and every name is text.
    let _ = serde_json::to_writer(&mut *bytes, &Line::new(row, terms));
    // Lines may be read in a terminal, and by programs that split lines at other characters too.
    if is_plain(&bytes[start..]) {
        return;
    }
    let escaped = match std::str::from_utf8(&bytes[start..]).map(printable_json) {
        Ok(Cow::Owned(escaped)) => escaped,
        _ => return,
    };
    bytes.truncate(start);
    bytes.extend_from_slice(escaped.as_bytes());
}

/// Returns a share as lines have it.
pub(super) fn sample_field(sample: Sample) -> Option<Box<RawValue>> {
    let is_sampled = sample < Sample::ALL;
    is_sampled.then(|| RawValue::from_string(sample.to_string()).ok()).flatten()
}

/// The code of a denial because the key is banned.
const BANNED: &str = "banned";

/// A line. The names are those of the HTTP answer, where it has the field too.
#[derive(Serialize)]
struct Line<'a> {
    time: Rfc3339,
    op: &'static str,
    limit: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// The bytes of a key that isn't text, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_bytes: Option<&'a str>,
    allowed: bool,
    source: &'static str,
    binding: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binding_limit: Option<&'a str>,
    /// Why a request was denied that no policy refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    cost: Cost<'a>,
    retry_after_ms: Option<u64>,
    #[serde(serialize_with = "policies")]
    policies: &'a Row<'a>,
    #[serde(skip_serializing_if = "is_false")]
    shadow_denied: bool,
    #[serde(skip_serializing_if = "is_false")]
    repeat: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    together: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    denied_by: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "trace")]
    trace_id: Option<TraceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "is_zero")]
    left_out: u64,
}

/// The cost: a number, one number for each policy, or `null`.
struct Cost<'a>(&'a Row<'a>);

/// The result of a policy.
#[derive(Serialize)]
struct Policy<'a> {
    name: &'a str,
    limit: Option<u64>,
    remaining: Option<u64>,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    given_back: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    shadow: bool,
}

impl<'a> Line<'a> {
    fn new(row: &'a Row<'a>, terms: &LineTerms<'a>) -> Self {
        let decision = row.seen.decision;
        let (key, key_bytes) = match terms.key {
            WrittenKey::Text(text) => (Some(&**text), None),
            WrittenKey::Bytes(digits) => (None, Some(digits.as_str())),
        };
        let code = match decision.is_denied() {
            true if decision.is_store_full() => Some(STORE_FULL),
            true if decision.ban().is_some() => Some(BANNED),
            true if decision.pause().is_some() => Some(PAUSED),
            _ => None,
        };
        Self {
            // The time by which the policies decided, so that a replay decides alike.
            time: Rfc3339(decision.evaluated_at().unwrap_or_else(|| SystemClock::new().now())),
            op: row.seen.operation.name(),
            limit: row.limit.as_str(),
            key,
            key_bytes,
            allowed: decision.is_allowed(),
            source: row.source().as_str(),
            binding: decision.binding().map(|binding| binding.name().as_str()),
            binding_limit: row.binding_limit().map(LimitName::as_str),
            code,
            cost: Cost(row),
            retry_after_ms: decision.retry_after().as_millis_ceil(),
            policies: row,
            shadow_denied: row.is_shadow_denied(),
            repeat: decision.is_repeat(),
            together: row.together().map(LimitName::as_str).collect(),
            denied_by: row.denied_by().map(LimitName::as_str).collect(),
            client: terms.client,
            trace_id: terms.trace,
            sample: terms.sample,
            left_out: terms.left_out,
        }
    }
}

impl Serialize for Cost<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.cost() {
            RowCost::None => serializer.serialize_none(),
            RowCost::Same(cost) => serializer.serialize_u64(cost),
            RowCost::Each => {
                let mut map = serializer.serialize_map(None)?;
                for (policy, cost) in self.0.costs() {
                    map.serialize_entry(policy, &cost)?;
                }
                map.end()
            }
        }
    }
}

impl<'a> Policy<'a> {
    fn new(outcome: Outcome<'a>) -> Self {
        Self {
            name: outcome.name().as_str(),
            limit: outcome.limit(),
            remaining: outcome.remaining(),
            allowed: outcome.is_admitted(),
            given_back: outcome.given_back(),
            shadow: outcome.is_shadow(),
        }
    }
}

fn policies<S: Serializer>(row: &Row<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(row.policies().map(Policy::new))
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn trace<S: Serializer>(trace: &Option<TraceId>, serializer: S) -> Result<S::Ok, S::Error> {
    match trace {
        Some(trace) => serializer.collect_str(trace),
        None => serializer.serialize_none(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
