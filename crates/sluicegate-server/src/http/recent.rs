//! The newest decisions, for the page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use sluicegate::{Answered, Observer, Operation, RetryAfter, Span};
use tokio::time::Instant;

use crate::answer::micros;

/// The newest checks and other requests to be let in, a bounded number of them.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    at: Instant,
    limit: String,
    key: String,
    allowed: bool,
    source: &'static str,
    binding: Option<String>,
    retry_after: RetryAfter,
}

#[derive(Debug, Serialize)]
pub(super) struct RecentAnswer {
    /// The newest first.
    recent: Vec<RecentEntry>,
}

#[derive(Debug, Serialize)]
struct RecentEntry {
    age_ms: u64,
    age_us: u64,
    limit: String,
    key: String,
    allowed: bool,
    source: &'static str,
    binding: Option<String>,
    retry_after_ms: Option<u64>,
    retry_after_us: Option<u64>,
}

impl Recent {
    /// How many are kept.
    const MOST: usize = 100;
    /// How much of a key is kept, in characters: a client chooses it, and may choose a long one.
    const MOST_OF_KEY: usize = 64;

    fn add(&self, entry: Entry) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= Self::MOST {
            entries.pop_back();
        }
        entries.push_front(entry);
    }

    pub(super) fn answer(&self) -> RecentAnswer {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = entries.iter().map(|entry| {
            let age = Span::from(entry.at.elapsed());
            RecentEntry {
                age_ms: age.as_millis_ceil(),
                age_us: age.as_micros(),
                limit: entry.limit.clone(),
                key: entry.key.clone(),
                allowed: entry.allowed,
                source: entry.source,
                binding: entry.binding.clone(),
                retry_after_ms: entry.retry_after.as_millis_ceil(),
                retry_after_us: micros(entry.retry_after),
            }
        });
        RecentAnswer { recent: recent.collect() }
    }
}

impl Observer for Recent {
    fn answered(&self, answered: &Answered<'_>) {
        let wants_in = matches!(
            answered.operation,
            Operation::Check | Operation::Reserve { .. } | Operation::TakeUpTo
        );
        let Some(decision) = answered.outcome.ok().filter(|_| wants_in) else {
            return;
        };
        self.add(Entry {
            at: Instant::now(),
            limit: answered.limit.name().as_str().to_owned(),
            key: shown(answered.key),
            allowed: decision.is_allowed(),
            source: decision.source().as_str(),
            binding: decision.binding().map(|binding| binding.name().to_string()),
            retry_after: decision.retry_after(),
        });
    }
}

/// The beginning of a key as text.
fn shown(key: &[u8]) -> String {
    // A character has at most 4 bytes; one that is cut in two is past those that are shown.
    let most = 4 * (Recent::MOST_OF_KEY + 1);
    let text = String::from_utf8_lossy(key.get(..most).unwrap_or(key));
    match text.char_indices().nth(Recent::MOST_OF_KEY) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate::{Limiter, MemoryStore};

    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let recent = Arc::new(Recent::default());
        let limit = sluicegate::limit("l", ["gcra 1/s"]).unwrap();
        let limiter = Limiter::builder(MemoryStore::new(), limit).observer(recent.clone()).build();
        for number in 0..Recent::MOST + 5 {
            let _ = limiter.check_now(&format!("key-{number}")).unwrap();
            let _ = limiter.peek_now("looked at").unwrap();
        }
        let answer = recent.answer().recent;
        assert_eq!(answer.len(), Recent::MOST);
        assert_eq!(answer[0].key, "key-104");
    }

    #[test]
    fn long_keys_are_cut_and_others_whole() {
        let longest = "é".repeat(Recent::MOST_OF_KEY);
        assert_eq!(shown(longest.as_bytes()), longest);
        assert_eq!(shown(format!("{longest}x").as_bytes()), format!("{longest}…"));
        let crabs = "\u{1f980}".repeat(1_000);
        assert_eq!(shown(crabs.as_bytes()).chars().count(), Recent::MOST_OF_KEY + 1);
        assert_eq!(shown(b"a\xff\0"), "a\u{fffd}\0");
    }
}
