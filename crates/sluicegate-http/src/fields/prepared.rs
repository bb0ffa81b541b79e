//! Response fields that are kept until their response exists.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::X_RATE_LIMIT;
use super::format::FieldFormat;
use super::value::{number_value, reserve};
use super::{DRAFT_03, LimitFields, RATE_LIMIT, RATE_LIMIT_PARTITION, RATE_LIMIT_POLICY, RETRY};

/// The response fields of one decision, prepared for writing: returned by
/// [`DecisionFields::prepare`](super::DecisionFields::prepare).
///
/// They borrow neither the decision nor the limit, so middleware can keep them until there is a
/// response.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PreparedFields {
    pub(super) content: Content,
    /// The value of `Retry-After`.
    pub(super) retry: Option<u64>,
}

/// The fields of the format. Small, because it moves with every request.
#[derive(Clone, Debug, Default)]
pub(super) enum Content {
    #[default]
    Nothing,
    /// `RateLimit` and its companions, which list all policies.
    Lists { fields: LimitFields, left: HeaderValue },
    /// Three fields of the policy that is closest to its limit.
    Closest { fields: LimitFields, index: usize, left: u64, reset: Option<u64> },
}

impl PreparedFields {
    /// Returns whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.content, Content::Nothing) && self.retry.is_none()
    }

    /// Returns the names of the fields, in the order in which they are written.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &'static HeaderName> + use<> {
        let mut names = SmallVec::<[_; 4]>::new();
        self.each(|name, _| names.push(name));
        names.into_iter()
    }

    /// Writes the fields, and `Retry-After` on a denial.
    ///
    /// If another limit has already written fields, lists are extended. Other fields keep the values
    /// of the limit with fewer units left.
    pub fn write(self, headers: &mut HeaderMap) {
        match &self.content {
            Content::Nothing => {}
            Content::Lists { .. } => self.each_content(|name, value| {
                if let Some(value) = value {
                    headers.append(name, value);
                }
            }),
            Content::Closest { fields, left, .. } => {
                let [_, name, _] = names_in(fields.format());
                let other = headers.get(name).and_then(|value| value.to_str().ok()?.parse().ok());
                if other.is_none_or(|other: u64| other >= *left) {
                    self.each_content(|name, value| match value {
                        Some(value) => drop(headers.insert(name, value)),
                        None => drop(headers.remove(name)),
                    });
                }
            }
        }
        if let Some(seconds) = self.retry {
            headers.insert(&RETRY, number_value(seconds));
        }
    }

    /// Calls `out` for all fields, in the order in which they are written.
    pub(super) fn each(&self, mut out: impl FnMut(&'static HeaderName, Option<HeaderValue>)) {
        self.each_content(&mut out);
        if let Some(seconds) = self.retry {
            out(&RETRY, Some(number_value(seconds)));
        }
    }

    /// Calls `out` for all fields except `Retry-After`. A field with the value `None` must not be
    /// present.
    fn each_content(&self, mut out: impl FnMut(&'static HeaderName, Option<HeaderValue>)) {
        /// Enough for three numbers.
        const BYTES: usize = 64;
        match &self.content {
            Content::Nothing => {}
            Content::Lists { fields, left } => {
                let ready = &fields.ready;
                out(&RATE_LIMIT_POLICY, ready.policies.clone());
                // The list is empty if the store failed, so that nothing was counted.
                if !left.is_empty() {
                    out(&RATE_LIMIT, Some(left.clone()));
                }
                if fields.format() == FieldFormat::DraftNext && ready.partitions.is_some() {
                    out(&RATE_LIMIT_PARTITION, ready.partitions.clone());
                }
            }
            Content::Closest { fields, index, left, reset } => {
                reserve(BYTES);
                let names = names_in(fields.format());
                let member = fields.ready.members.get(*index);
                out(&names[0], member.map(|member| member.limit.clone()));
                out(&names[2], reset.map(number_value));
                out(&names[1], Some(number_value(*left)));
            }
        }
    }
}

/// Returns the names of the limit, the remaining units and the reset.
const fn names_in(format: FieldFormat) -> &'static [HeaderName; 3] {
    if matches!(format, FieldFormat::Draft03) { &DRAFT_03 } else { &X_RATE_LIMIT }
}

/// Returns the parameter of the effective window.
pub(super) const fn window_parameter(format: FieldFormat) -> &'static [u8] {
    if matches!(format, FieldFormat::DraftNext) { b";w=" } else { b";t=" }
}
