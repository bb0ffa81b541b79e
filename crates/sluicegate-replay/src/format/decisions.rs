//! The decision log of a Sluicegate service.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_core::Cost;

use crate::decision_counts::{DecisionCounts, Unplayed};
use crate::format::role::Role;
use crate::malformed::Malformed;
use crate::record::{Field, Moment, Record};
use crate::times::Times;

/// Reads the lines of a decision log.
///
/// A line is a request if a policy of the limit decided about its admission. If another limit denied the request, other
/// numbers of this limit change nothing, so that the line isn't a request.
#[derive(Clone, Debug)]
pub(crate) struct DecisionLines {
    times: Times,
    key: Vec<u8>,
    counts: Arc<DecisionCounts>,
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

impl DecisionLines {
    pub(crate) fn new(counts: Arc<DecisionCounts>) -> Self {
        Self { times: Times::default(), key: Vec::new(), counts }
    }

    /// Reads a line. Returns `None` if it isn't a request to play.
    pub(crate) fn read<'p>(
        &'p mut self,
        line: &'p [u8],
        record: &mut Record<'p>,
    ) -> Result<Option<Moment>, Malformed> {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|_| Malformed::NotJson)?;
        let invalid_time = Malformed::Invalid(Role::Time);
        record.time = self.times.read(line.time.as_bytes()).ok_or(invalid_time)?;
        let sample = match line.sample {
            Some(sample) => sample_of(sample.get()).ok_or(Malformed::Shape)?,
            None => DecisionCounts::WHOLE,
        };
        self.counts.note_sample(sample);
        self.counts.leave_out(line.left_out);
        let unplayed = if !self.counts.is_wanted(&line.limit) {
            Some(Unplayed::OtherLimit)
        } else if !matches!(&*line.op, "check" | "take" | "reserve") {
            Some(Unplayed::OtherOperation)
        } else if line.source == "bypass" || line.repeat {
            Some(Unplayed::NotCounted)
        } else if line.denied_by.iter().any(|limit| *limit != line.limit) {
            Some(Unplayed::DeniedByOthers)
        } else {
            None
        };
        if let Some(unplayed) = unplayed {
            self.counts.count(unplayed);
            return Ok(None);
        }
        record.cost = match line.cost.map(RawValue::get) {
            None | Some("0") => None,
            Some(costs) if costs.starts_with('{') => {
                self.counts.count_costs_by_policy();
                None
            }
            Some(cost) => {
                let cost = cost.parse().ok().and_then(|units| Cost::new(units).ok());
                Some(cost.ok_or(Malformed::Invalid(Role::Cost))?)
            }
        };
        if line.allowed {
            record.stands_for = self.counts.scale(sample);
        }
        let host = Role::Text(Field::Host);
        self.key = match (line.key, line.key_bytes) {
            (Some(key), _) => key.into_owned().into_bytes(),
            (None, Some(digits)) => bytes(&digits).ok_or(Malformed::Invalid(host))?,
            (None, None) => return Err(Malformed::Missing(host)),
        };
        record.set(Field::Host, &self.key);
        let _ = line.policies;
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
