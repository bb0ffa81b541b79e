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
    others: Vec<LimitName>,
}

/// One limit of an answer, from which a row is made.
pub(super) struct RowPart<'a> {
    answered: &'a Answered<'a>,
    decision: &'a Decision,
    limit: &'a LimitName,
    key: &'a [u8],
    source: Source,
}

impl Row {
    /// Maximum number of characters kept of a key, because a client may choose a long one.
    pub(super) const MOST_OF_KEY: usize = 64;
    /// Maximum number of bytes of a key that are read. A character has at most 4 bytes, so a truncated one is beyond the
    /// shown characters.
    const MOST_READ: usize = 4 * (Self::MOST_OF_KEY + 1);
    /// Maximum length of their text. Each of them may be invalid and replaced.
    const MOST_BYTES: usize = Self::MOST_READ * char::REPLACEMENT_CHARACTER.len_utf8();

    /// Makes the row of a part. It takes over the memory of an old row, so it allocates nothing unless it has more
    /// limits.
    pub(super) fn new(part: &RowPart<'_>, old: Option<Self>) -> Self {
        let memory = || (String::with_capacity(Self::MOST_BYTES), Vec::new());
        let (mut key, mut others) = old.map_or_else(memory, |old| (old.key, old.others));
        key.clear();
        write_shown(part.key, &mut key);
        others.clear();
        others.extend(part.others().cloned());
        let decision = part.decision;
        Self {
            limit: part.limit.clone(),
            key,
            allowed: decision.is_allowed(),
            source: part.source,
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

impl<'a> RowPart<'a> {
    /// Returns the parts of an answer. An error has none, and neither has a request that isn't for admission.
    pub(super) fn all_of(answered: &'a Answered<'a>) -> impl Iterator<Item = Self> + use<'a> {
        let decision = answered.outcome.ok().filter(|_| answered.is_admission());
        decision.into_iter().flat_map(move |decision| {
            let asked = answered.parts().map(|(limit, key)| (limit, key, decision.source()));
            let unasked = answered.unasked.iter();
            let unasked = unasked.map(|(limit, key)| (limit, &**key, Source::Bypass));
            let part = move |(limit, key, source)| Self { answered, decision, limit, key, source };
            asked.chain(unasked).map(part)
        })
    }

    /// Returns the other limits of the answer.
    fn others(&self) -> impl Iterator<Item = &'a LimitName> {
        let asked = self.answered.parts().map(|(limit, _)| limit);
        let all = asked.chain(self.answered.unasked.iter().map(|(limit, _)| limit));
        all.filter(|other| *other != self.limit)
    }
}

/// Returns the beginning of a key as text.
#[cfg(feature = "envoy")]
pub(super) fn shown(key: &[u8]) -> String {
    let mut text = String::new();
    write_shown(key, &mut text);
    text
}

/// Writes the beginning of a key as text.
fn write_shown(key: &[u8], text: &mut String) {
    for chunk in key.get(..Row::MOST_READ).unwrap_or(key).utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    // Most keys have so few bytes that their characters need no counting.
    if text.len() > Row::MOST_OF_KEY
        && let Some((end, _)) = text.char_indices().nth(Row::MOST_OF_KEY)
    {
        text.truncate(end);
        text.push('…');
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
