//! Fields of a decision, on their way to a response that isn't there yet.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::value::{Merge, Value};

/// The response fields of one decision, ready to be written: what
/// [`DecisionFields::ready`](super::DecisionFields::ready) makes.
///
/// It holds neither the decision nor the limit, so middleware can keep it until the response is
/// there.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ReadyFields {
    /// In the order of writing; no value takes a field of another limit away.
    fields: SmallVec<[(&'static HeaderName, Merge, Option<HeaderValue>); 4]>,
}

impl ReadyFields {
    pub(super) fn push(&mut self, name: &'static HeaderName, merge: Merge, value: Value<'_>) {
        let value = match value {
            Value::Nothing => None,
            value => Some(value.into_header()),
        };
        self.fields.push((name, merge, value));
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The names of the fields, in the order of writing.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &'static HeaderName> {
        self.fields.iter().map(|(name, ..)| *name)
    }

    /// Writes the fields, and `Retry-After` on a denial.
    ///
    /// Where another limit has already written its own, lists get longer, and of the others the
    /// one with less left stays.
    pub fn write(self, headers: &mut HeaderMap) {
        let mut keep = false;
        for (name, merge, value) in self.fields {
            match (merge, value) {
                (Merge::Append, Some(value)) => {
                    headers.append(name, value);
                }
                (Merge::Replace, Some(value)) => {
                    headers.insert(name, value);
                }
                (Merge::LeastLeft(left), value) => {
                    keep |= headers
                        .get(left.name)
                        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok())
                        .is_some_and(|other| other < left.units);
                    match value {
                        _ if keep => {}
                        None => {
                            headers.remove(name);
                        }
                        Some(value) => {
                            headers.insert(name, value);
                        }
                    }
                }
                (_, None) => {}
            }
        }
    }
}
