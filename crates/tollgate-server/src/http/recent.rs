//! The newest decisions, for the page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tokio::time::Instant;
use tollgate::{Decision, Limit};

use crate::answer::binding;

/// The newest checks, a bounded number of them.
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
    retry_after_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct RecentAnswer {
    /// The newest first.
    recent: Vec<RecentEntry>,
}

#[derive(Debug, Serialize)]
struct RecentEntry {
    age_ms: u64,
    limit: String,
    key: String,
    allowed: bool,
    source: &'static str,
    binding: Option<String>,
    retry_after_ms: Option<u64>,
}

impl Recent {
    /// How many are kept.
    const MOST: usize = 100;
    /// How much of a key is kept, in characters: a client chooses it, and may choose a long one.
    const MOST_OF_KEY: usize = 64;

    pub(super) fn add(&self, limit: &Limit, key: &str, decision: &Decision) {
        let mut shown: String = key.chars().take(Self::MOST_OF_KEY).collect();
        if shown.len() < key.len() {
            shown.push('…');
        }
        let entry = Entry {
            at: Instant::now(),
            limit: limit.name().as_str().to_owned(),
            key: shown,
            allowed: decision.is_allowed(),
            source: decision.source().as_str(),
            binding: binding(limit, decision).map(str::to_owned),
            retry_after_ms: decision.retry_after().as_millis_ceil(),
        };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= Self::MOST {
            entries.pop_back();
        }
        entries.push_front(entry);
    }

    pub(super) fn answer(&self) -> RecentAnswer {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = entries
            .iter()
            .map(|entry| RecentEntry {
                age_ms: u64::try_from(entry.at.elapsed().as_millis()).unwrap_or(u64::MAX),
                limit: entry.limit.clone(),
                key: entry.key.clone(),
                allowed: entry.allowed,
                source: entry.source,
                binding: entry.binding.clone(),
                retry_after_ms: entry.retry_after_ms,
            })
            .collect();
        RecentAnswer { recent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_long_keys_are_cut() {
        let recent = Recent::default();
        let limit = tollgate::limit("l", ["gcra 1/s"]).unwrap();
        for number in 0..Recent::MOST + 5 {
            recent.add(&limit, &format!("key-{number}"), &Decision::fallback(true));
        }
        recent.add(&limit, &"é".repeat(1_000), &Decision::fallback(false));
        let answer = recent.answer().recent;
        assert_eq!(answer.len(), Recent::MOST);
        assert_eq!(answer[0].key.chars().count(), 65);
        assert_eq!(answer[1].key, "key-104");
    }
}
