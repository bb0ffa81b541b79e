//! A decision in readable form: one row for each of its limits.

use std::sync::Arc;

use sluicegate::admin::Answered;
use sluicegate::decision::Source;
use sluicegate::policy::{LimitName, PolicyName};
use sluicegate::{Decision, RetryAfter};

use crate::access::Caller;

/// The role of one limit in a decision.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) limit: LimitName,
    /// Beginning of the key.
    pub(super) key: String,
    /// Whether the request was allowed, by all limits.
    pub(super) allowed: bool,
    pub(super) source: Source,
    pub(super) binding: Option<PolicyName>,
    /// Limit that refused.
    pub(super) binding_limit: Option<LimitName>,
    pub(super) retry_after: RetryAfter,
    /// The client that asked.
    pub(super) client: Option<Arc<str>>,
    /// The other limits of the decision, in the order of the request.
    others: Box<[LimitName]>,
}

impl Row {
    /// Maximum number of characters kept of a key, because a client may choose a long one.
    pub(super) const MOST_OF_KEY: usize = 64;

    /// Returns the rows of an answer. An error has no rows, and neither has a request that isn't
    /// for admission.
    pub(super) fn all_of<'a>(answered: &Answered<'a>) -> impl Iterator<Item = Self> + use<'a> {
        let decision = answered.outcome.ok().filter(|_| answered.is_admission());
        let (asked, unasked) = (answered.parts(), answered.unasked);
        decision.into_iter().flat_map(move |decision| {
            let asked = asked.clone().map(|(limit, key)| (limit, key, decision.source()));
            let unasked = unasked.iter().map(|(limit, key)| (limit, &**key, Source::Bypass));
            let all = asked.chain(unasked);
            all.clone().map(move |(limit, key, source)| {
                let others = all.clone().map(|(other, ..)| other).filter(|other| *other != limit);
                Self::new(decision, limit, key, source, others.cloned().collect())
            })
        })
    }

    fn new(
        decision: &Decision,
        limit: &LimitName,
        key: &[u8],
        source: Source,
        others: Box<[LimitName]>,
    ) -> Self {
        Self {
            limit: limit.clone(),
            key: shown(key),
            allowed: decision.is_allowed(),
            source,
            binding: decision.binding().map(|binding| binding.name().clone()),
            binding_limit: decision.binding_limit().cloned(),
            retry_after: decision.retry_after(),
            client: Caller::name_in_decision(),
            others,
        }
    }

    /// Returns all limits of the decision.
    pub(super) fn limits(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.limit).chain(&self.others).map(LimitName::as_str)
    }

    /// Returns the other limits of the decision.
    pub(super) fn together(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(LimitName::as_str)
    }
}

/// Returns the beginning of a key as text.
fn shown(key: &[u8]) -> String {
    // A character has at most 4 bytes, so a truncated one is beyond the shown characters.
    let most = 4 * (Row::MOST_OF_KEY + 1);
    let text = String::from_utf8_lossy(key.get(..most).unwrap_or(key));
    match text.char_indices().nth(Row::MOST_OF_KEY) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_cut_and_others_whole() {
        let longest = "é".repeat(Row::MOST_OF_KEY);
        assert_eq!(shown(longest.as_bytes()), longest);
        assert_eq!(shown(format!("{longest}x").as_bytes()), format!("{longest}…"));
        let crabs = "\u{1f980}".repeat(1_000);
        assert_eq!(shown(crabs.as_bytes()).chars().count(), Row::MOST_OF_KEY + 1);
        assert_eq!(shown(b"a\xff\0"), "a\u{fffd}\0");
    }
}
