//! The newest decisions, for the page.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use sluicegate::admin::{Answered, Observer};
use sluicegate::store::Span;
use tokio::time::Instant;

use super::row::{Row, RowPart};

/// The newest checks and other admission requests: a bounded number of rows, one for each limit.
///
/// It has only the first decisions of each second. Under load, a list of all would show some microseconds, and every
/// decision would wait for it.
#[derive(Debug)]
pub(super) struct Recent {
    started: Instant,
    budget: Budget,
    rows: Mutex<VecDeque<(Instant, Row)>>,
}

/// The number of decisions that are still kept of a second.
#[derive(Debug, Default)]
struct Budget(AtomicU64);

#[derive(Debug, Serialize)]
pub(super) struct RecentAnswer {
    /// Newest row first.
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
    binding_limit: Option<String>,
    /// Other limits of the decision.
    together: Vec<String>,
    /// The client that asked; `null` without clients.
    client: Option<String>,
    retry_after_ms: Option<u64>,
    retry_after_us: Option<u64>,
}

impl Recent {
    /// Maximum number of rows.
    const MOST: usize = 100;

    pub(super) fn new() -> Self {
        let rows = Mutex::new(VecDeque::with_capacity(Self::MOST));
        Self { started: Instant::now(), budget: Budget::default(), rows }
    }

    /// Returns the rows of the decisions whose limits are all shown.
    pub(super) fn answer(&self, is_shown: impl Fn(&str) -> bool) -> RecentAnswer {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = rows.iter().filter(|(_, row)| row.limits().all(&is_shown));
        RecentAnswer { recent: shown.map(|(at, row)| RecentEntry::new(*at, row)).collect() }
    }
}

impl Budget {
    /// The number of decisions that are kept of a second.
    const A_SECOND: u64 = 1_000;

    /// Takes one of a second's decisions. Returns `false` if there are none left.
    fn take(&self, second: u64) -> bool {
        // Threads that meet here may count one decision instead of two.
        let (known, taken) = {
            let state = self.0.load(Ordering::Relaxed);
            (state >> 32, state & u64::from(u32::MAX))
        };
        let taken = if known == second { taken } else { 0 };
        if taken == Self::A_SECOND {
            return false;
        }
        self.0.store(second << 32 | (taken + 1), Ordering::Relaxed);
        true
    }
}

impl RecentEntry {
    fn new(at: Instant, row: &Row) -> Self {
        let age = Span::from(at.elapsed());
        Self {
            age_ms: age.as_millis_ceil(),
            age_us: age.as_micros(),
            limit: row.limit.to_string(),
            key: row.key.clone(),
            allowed: row.allowed,
            source: row.source.as_str(),
            binding: row.binding.as_ref().map(ToString::to_string),
            binding_limit: row.binding_limit.as_ref().map(ToString::to_string),
            together: row.together().map(str::to_owned).collect(),
            client: row.client.as_deref().map(str::to_owned),
            retry_after_ms: row.retry_after.as_millis_ceil(),
            retry_after_us: row.retry_after.as_micros(),
        }
    }
}

impl Observer for Recent {
    fn answered(&self, answered: &Answered<'_>) {
        let at = Instant::from_std(answered.at);
        let since = at.saturating_duration_since(self.started);
        if !answered.is_admission() || !self.budget.take(since.as_secs()) {
            return;
        }
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        // The rows of a decision are in the order of its request.
        for (place, part) in RowPart::all_of(answered).take(Self::MOST).enumerate() {
            let oldest = if rows.len() == Self::MOST { rows.pop_back() } else { None };
            let row = Row::new(&part, oldest.map(|(_, row)| row));
            rows.insert(place, (at, row));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate::{Limiter, MemoryStore};

    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let recent = Arc::new(Recent::new());
        let limit = sluicegate::Limit::new("l", ["gcra 1/s"]).unwrap();
        let limiter = Limiter::builder(MemoryStore::new(), limit).observer(recent.clone()).build();
        for number in 0..Recent::MOST + 5 {
            let _ = limiter.check(&format!("key-{number}")).now().unwrap();
            let _ = limiter.peek("looked at").now().unwrap();
        }
        let answer = recent.answer(|_| true).recent;
        assert_eq!(answer.len(), Recent::MOST);
        assert_eq!(answer[0].key, "key-104");
        assert_eq!(answer[0].together, [] as [&str; 0]);
        assert!(recent.answer(|limit| limit != "l").recent.is_empty());
    }

    #[test]
    fn of_a_second_the_first_are_kept() {
        let budget = Budget::default();
        let taken = |second| (0..2_000).filter(|_| budget.take(second)).count();
        assert_eq!([taken(0), taken(0), taken(1), taken(7)], [1_000, 0, 1_000, 1_000]);
    }
}
