//! Fields of a decision, on their way to a response that isn't there yet.

use bytes::BytesMut;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::X_RATE_LIMIT;
use super::format::FieldFormat;
use super::written::{make_room, number, write_number, written};
use super::{DRAFT_03, LimitFields, RATE_LIMIT, RATE_LIMIT_PARTITION, RATE_LIMIT_POLICY, RETRY};

/// The response fields of one decision, ready to be written: what
/// [`DecisionFields::ready`](super::DecisionFields::ready) makes.
///
/// It holds neither the decision nor the limit, so middleware can keep it until the response is
/// there.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ReadyFields {
    pub(super) told: Told,
    /// The value of `Retry-After`.
    pub(super) retry: Option<u64>,
}

/// What the format tells. Small, because it is moved about with every request.
#[derive(Clone, Debug, Default)]
pub(super) enum Told {
    #[default]
    Nothing,
    /// Lists of all policies.
    Lists { fields: LimitFields, left: HeaderValue },
    /// The policy that is closest to its limit.
    Closest { fields: LimitFields, place: usize, left: u64, reset: Option<u64> },
}

impl ReadyFields {
    /// Whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.told, Told::Nothing) && self.retry.is_none()
    }

    /// The names of the fields, in the order of writing.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &'static HeaderName> + use<> {
        let mut names = SmallVec::<[_; 4]>::new();
        self.each(|name, _| names.push(name));
        names.into_iter()
    }

    /// Writes the fields, and `Retry-After` on a denial.
    ///
    /// Where another limit has already written its own, lists get longer, and of the others the
    /// one with less left stays. No effective window is told that is longer than a `Retry-After`
    /// that is already there.
    pub fn write(mut self, headers: &mut HeaderMap) {
        if let Some(retry) = headers.get(&RETRY).and_then(|value| value.to_str().ok()?.parse().ok())
        {
            self.end_by(retry);
        }
        match &self.told {
            Told::Nothing => {}
            Told::Lists { .. } => self.each_told(|name, value| {
                if let Some(value) = value {
                    headers.append(name, value);
                }
            }),
            Told::Closest { fields, left, .. } => {
                let [_, name, _] = names_of(fields.format());
                let other = headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok());
                if other.is_none_or(|other: u64| other >= *left) {
                    self.each_told(|name, value| match value {
                        Some(value) => drop(headers.insert(name, value)),
                        None => drop(headers.remove(name)),
                    });
                }
            }
        }
        if let Some(seconds) = self.retry {
            headers.insert(&RETRY, number(seconds));
        }
    }

    /// `Retry-After` should not point before the end of an effective window, whoever wrote it.
    #[cold]
    fn end_by(&mut self, retry: u64) {
        match &mut self.told {
            Told::Nothing => {}
            Told::Lists { fields, left } => {
                let window = window_parameter(fields.format());
                *left = written(|text| clamp_parameter(text, left.as_bytes(), window, retry));
            }
            // A Unix time is no number of seconds.
            Told::Closest { fields, .. } if fields.format() == FieldFormat::XRateLimitUnix => {}
            Told::Closest { reset, .. } => *reset = reset.map(|seconds| seconds.min(retry)),
        }
    }

    /// Shows all fields, in the order of writing.
    pub(super) fn each(&self, mut out: impl FnMut(&'static HeaderName, Option<HeaderValue>)) {
        self.each_told(&mut out);
        if let Some(seconds) = self.retry {
            out(&RETRY, Some(number(seconds)));
        }
    }

    /// `None` is a field that must not be there.
    fn each_told(&self, mut out: impl FnMut(&'static HeaderName, Option<HeaderValue>)) {
        /// Of three numbers.
        const BYTES: usize = 64;
        match &self.told {
            Told::Nothing => {}
            Told::Lists { fields, left } => {
                let ready = &fields.ready;
                out(&RATE_LIMIT_POLICY, ready.policies.clone());
                // Nobody counted where the store failed.
                if !left.is_empty() {
                    out(&RATE_LIMIT, Some(left.clone()));
                }
                if fields.format() == FieldFormat::DraftNext && ready.partitions.is_some() {
                    out(&RATE_LIMIT_PARTITION, ready.partitions.clone());
                }
            }
            Told::Closest { fields, place, left, reset } => {
                make_room(BYTES);
                let names = names_of(fields.format());
                let member = fields.ready.members.get(*place);
                out(&names[0], member.map(|member| member.limit.clone()));
                out(&names[2], reset.map(number));
                out(&names[1], Some(number(*left)));
            }
        }
    }
}

/// Limit, remaining and reset.
const fn names_of(format: FieldFormat) -> &'static [HeaderName; 3] {
    if matches!(format, FieldFormat::Draft03) { &DRAFT_03 } else { &X_RATE_LIMIT }
}

/// What stands before the effective window of a member.
pub(super) const fn window_parameter(format: FieldFormat) -> &'static [u8] {
    if matches!(format, FieldFormat::DraftNext) { b";w=" } else { b";t=" }
}

/// Writes a list of ours with no number above `most` after `parameter`, which is in no name.
fn clamp_parameter(text: &mut BytesMut, list: &[u8], parameter: &[u8], most: u64) {
    let mut rest = list;
    while let Some(place) = rest.windows(parameter.len()).position(|bytes| bytes == parameter) {
        let (before, after) = rest.split_at(place + parameter.len());
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, after) = after.split_at(digits);
        let number = number.iter().fold(0, |all, digit| all * 10 + u64::from(digit - b'0'));
        text.extend_from_slice(before);
        write_number(text, number.min(most));
        rest = after;
    }
    text.extend_from_slice(rest);
}
