//! The decision log of a Sluicegate service.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_core::{Cost, Timestamp};

use crate::decision_counts::{DecisionCounts, Unplayed};
use crate::format::role::Role;
use crate::malformed::Malformed;
use crate::record::{Field, Moment, Record, Then};
use crate::times::Times;

/// Reads the lines of a decision log.
///
/// A line is a request if a policy of the limit decided about its admission. If another limit denied the request, other
/// numbers of this limit change nothing, so that the line isn't a request.
#[derive(Clone, Debug)]
pub(crate) struct DecisionLines {
    lines: LoggedDecisions,
    key: Vec<u8>,
    counts: Arc<DecisionCounts>,
}

/// Reads single lines of a decision log, of all limits.
///
/// ```
/// use sluicegate_replay::LoggedDecisions;
///
/// let line = r#"{"time":"2026-11-29T03:00:00.5Z","op":"check","limit":"login","key":"alice","allowed":false,
///     "source":"store","binding":"day","cost":1,"retry_after_ms":61000,"policies":[]}"#;
/// let decision = LoggedDecisions::new().read(line.as_bytes()).ok_or("a line")?;
/// assert_eq!((&*decision.limit, &*decision.key, decision.was_denied), ("login", &b"alice"[..], true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoggedDecisions {
    times: Times,
}

/// A line of a decision log.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the line")]
#[non_exhaustive]
pub struct LoggedDecision<'l> {
    /// Time of the decision.
    pub time: Timestamp,
    /// Name of the limit.
    pub limit: Cow<'l, str>,
    /// Key as the log has it.
    pub key: Cow<'l, [u8]>,
    /// Cost of the request.
    pub cost: LoggedCost,
    /// Whether the operation asks for admission: a check, a take or a reservation.
    pub is_admission: bool,
    /// Whether the operation is a take.
    pub is_take: bool,
    /// Whether the request was denied.
    pub was_denied: bool,
    /// Whether no policy counted the request: its key is on a list, or the limit is off.
    pub is_bypass: bool,
    /// Whether the request is a repeat, which was charged nothing.
    pub is_repeat: bool,
    /// Whether another limit denied the request.
    pub is_denied_by_others: bool,
    /// The share of allowed decisions that the log has, in millionths.
    pub sample: u32,
    /// Number of lines that were left out before this one.
    pub left_out: u64,
}

/// The cost of a request in a decision log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LoggedCost {
    /// None: each policy's own cost.
    Own,
    /// One for all policies.
    Same(Cost),
    /// A different one for each policy, by names.
    Each,
}

/// The parts of a line that matter here.
#[derive(Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    time: Cow<'l, str>,
    #[serde(borrow)]
    op: Cow<'l, str>,
    #[serde(borrow)]
    limit: Cow<'l, str>,
    #[serde(borrow, default)]
    key: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    key_bytes: Option<Cow<'l, str>>,
    allowed: bool,
    #[serde(borrow)]
    source: Cow<'l, str>,
    #[serde(borrow)]
    cost: Option<&'l RawValue>,
    /// A log that lacks them isn't a decision log.
    #[serde(borrow)]
    policies: &'l RawValue,
    #[serde(default)]
    repeat: bool,
    #[serde(borrow, default)]
    denied_by: Vec<Cow<'l, str>>,
    #[serde(borrow, default)]
    sample: Option<&'l RawValue>,
    #[serde(default)]
    left_out: u64,
}

impl LoggedDecisions {
    /// Returns a reader of lines.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a line. Returns `None` if it isn't a line of a decision log.
    pub fn read<'l>(&mut self, line: &'l [u8]) -> Option<LoggedDecision<'l>> {
        self.parse(line).ok()
    }

    fn parse<'l>(&mut self, line: &'l [u8]) -> Result<LoggedDecision<'l>, Malformed> {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|_| Malformed::NotJson)?;
        let invalid_time = Malformed::Invalid(Role::Time);
        let time = self.times.read(line.time.as_bytes()).ok_or(invalid_time)?;
        let sample = match line.sample {
            Some(sample) => sample_of(sample.get()).ok_or(Malformed::Shape)?,
            None => DecisionCounts::WHOLE,
        };
        let cost = match line.cost.map(RawValue::get) {
            None | Some("0") => LoggedCost::Own,
            Some(costs) if costs.starts_with('{') => LoggedCost::Each,
            Some(cost) => {
                let cost = cost.parse().ok().and_then(|units| Cost::new(units).ok());
                LoggedCost::Same(cost.ok_or(Malformed::Invalid(Role::Cost))?)
            }
        };
        let host = Role::Text(Field::Host);
        let key = match (line.key, line.key_bytes) {
            (Some(Cow::Borrowed(key)), _) => Cow::Borrowed(key.as_bytes()),
            (Some(Cow::Owned(key)), _) => Cow::Owned(key.into_bytes()),
            (None, Some(digits)) => bytes(&digits).ok_or(Malformed::Invalid(host))?.into(),
            (None, None) => return Err(Malformed::Missing(host)),
        };
        let _ = line.policies;
        Ok(LoggedDecision {
            time: Timestamp::from_micros_clamped(time),
            key,
            cost,
            is_admission: matches!(&*line.op, "check" | "take" | "reserve"),
            is_take: line.op == "take",
            was_denied: !line.allowed,
            is_bypass: line.source == "bypass",
            is_repeat: line.repeat,
            is_denied_by_others: line.denied_by.iter().any(|limit| *limit != line.limit),
            limit: line.limit,
            sample,
            left_out: line.left_out,
        })
    }
}

impl DecisionLines {
    pub(crate) fn new(counts: Arc<DecisionCounts>) -> Self {
        Self { lines: LoggedDecisions::new(), key: Vec::new(), counts }
    }

    /// Reads a line. Returns `None` if it isn't a request to play.
    pub(crate) fn read<'p>(
        &'p mut self,
        line: &'p [u8],
        record: &mut Record<'p>,
    ) -> Result<Option<Moment>, Malformed> {
        let line = self.lines.parse(line)?;
        record.time = line.time.as_micros();
        self.counts.note_sample(line.sample);
        self.counts.leave_out(line.left_out);
        let unplayed = if !self.counts.is_wanted(&line.limit) {
            Some(Unplayed::OtherLimit)
        } else if !line.is_admission {
            Some(Unplayed::OtherOperation)
        } else if line.is_bypass || line.is_repeat {
            Some(Unplayed::NotCounted)
        } else if line.is_denied_by_others {
            Some(Unplayed::DeniedByOthers)
        } else {
            None
        };
        if let Some(unplayed) = unplayed {
            self.counts.count(unplayed);
            return Ok(None);
        }
        record.cost = match line.cost {
            LoggedCost::Own => None,
            LoggedCost::Same(cost) => Some(cost),
            LoggedCost::Each => {
                self.counts.count_costs_by_policy();
                None
            }
        };
        record.then = Then {
            was_denied: line.was_denied,
            is_take: line.is_take,
            sample: if line.was_denied { 0 } else { self.counts.scale(line.sample) },
        };
        self.key.clear();
        self.key.extend_from_slice(&line.key);
        record.set(Field::Host, &self.key);
        Ok(Some(Moment::Start))
    }
}

/// Decodes hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// Returns a share in millionths.
fn sample_of(text: &str) -> Option<u32> {
    let (whole, parts) = text.split_once('.').unwrap_or((text, ""));
    let is_short = parts.len() <= 6 && parts.bytes().all(|digit| digit.is_ascii_digit());
    let parts: u32 = format!("{parts:0<6}").parse().ok().filter(|_| is_short)?;
    let whole: u32 = whole.parse().ok()?;
    whole
        .checked_mul(DecisionCounts::WHOLE)?
        .checked_add(parts)
        .filter(|sample| *sample <= DecisionCounts::WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_share_in_millionths() {
        for (text, sample) in [("0.01", 10_000), ("1", 1_000_000), ("0", 0), ("0.000001", 1)] {
            assert_eq!(sample_of(text), Some(sample), "{text}");
        }
        for text in ["1.5", "-1", "", "0.1234567", "1e-3", "\"1\"", "null"] {
            assert_eq!(sample_of(text), None, "{text}");
        }
    }
}
