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
    /// All limits of the decision, in the order of the request.
    all: Arc<[LimitName]>,
}

impl Row {
    /// Maximum number of characters kept of a key, because a client may choose a long one.
    pub(super) const MOST_OF_KEY: usize = 64;

    /// Returns the rows of an answer. An error has no rows, and neither has a request that isn't
    /// for admission.
    pub(super) fn all_of(answered: &Answered<'_>) -> Vec<Self> {
        let Some(decision) = answered.outcome.ok().filter(|_| answered.is_admission()) else {
            return Vec::new();
        };
        let asked = answered.parts().map(|(limit, key)| (limit, key, decision.source()));
        let unasked = answered.unasked.iter().map(|(limit, key)| (limit, &**key, Source::Bypass));
        let each = asked.chain(unasked);
        let all: Arc<[LimitName]> = each.clone().map(|(limit, ..)| limit.clone()).collect();
        each.map(|(limit, key, source)| Self::new(decision, limit, key, source, &all)).collect()
    }

    fn new(
        decision: &Decision,
        limit: &LimitName,
        key: &[u8],
        source: Source,
        all: &Arc<[LimitName]>,
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
            all: Arc::clone(all),
        }
    }

    /// Returns all limits of the decision.
    pub(super) fn limits(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(LimitName::as_str)
    }

    /// Returns the other limits of the decision.
    pub(super) fn together(&self) -> impl Iterator<Item = &str> {
        let others = self.all.iter().filter(|limit| **limit != self.limit);
        others.map(LimitName::as_str)
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
