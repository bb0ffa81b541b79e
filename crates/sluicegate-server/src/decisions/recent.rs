//! The newest decisions.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate::admin::{Answered, Observer};
use sluicegate::decision::Source;
use sluicegate::policy::{LimitName, PolicyName};
use sluicegate::store::Span;
use tokio::time::Instant;

use super::budget::Budget;
use super::key_form::KeyForm;
use super::line::{self, LineTerms};
use super::row::{Row, Seen};
use crate::access::Caller;
use crate::trace_context::TraceContext;

/// The newest checks and other admission requests: a bounded number of rows, one for each limit.
///
/// Denials are kept separately, so that admitted requests don't push them out. The list has only the first decisions of
/// each second. Under load, a list of all would show some microseconds, and every decision would wait for it.
#[derive(Debug)]
pub(crate) struct Recent {
    started: Instant,
    admissions: Budget,
    denials: Budget,
    /// The decisions that weren't kept.
    left_out: AtomicU64,
    rows: Mutex<Rows>,
}

/// The rows that a list is to have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) limit: Option<String>,
    /// The whole key.
    pub(crate) key: Option<String>,
    /// The beginning of the key.
    pub(crate) prefix: Option<String>,
    pub(crate) outcome: Option<Outcome>,
    /// A policy that refused, or would have as a shadow.
    pub(crate) policy: Option<String>,
    pub(crate) source: Option<Source>,
    pub(crate) client: Option<String>,
    /// The number of the last row that is known already.
    pub(crate) since: Option<u64>,
}

/// The outcome of a decision, as a filter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
    /// Allowed, although a shadow policy refuses.
    ShadowDenied,
}

/// A part of the list.
#[derive(Debug)]
pub(crate) struct RecentPage {
    /// The oldest row first.
    rows: Vec<Arc<Entry>>,
    /// The number of the last row that the list has or passed over.
    next: u64,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Rows {
    /// The number of the last row.
    last: u64,
    admitted: Ring,
    /// Kept separately, so that admitted traffic doesn't push denials out.
    denied: Ring,
}

/// The newest rows of a kind, the oldest first.
#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
}

/// A row that is kept.
#[derive(Debug)]
struct Entry {
    number: u64,
    /// The number of the decision's first row.
    decision: u64,
    at: Instant,
    limit: LimitName,
    others: Vec<LimitName>,
    key: String,
    outcome: Outcome,
    source: Source,
    retry_after_us: Option<u64>,
    /// The policies that refused, or would have as shadows.
    refused_by: Vec<PolicyName>,
    client: Option<Arc<str>>,
    /// The row as the decision log has it.
    line: Vec<u8>,
}

impl Recent {
    /// The number of admitted decisions, and of denied ones, that are kept of a second.
    const A_SECOND: u64 = 1_000;

    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            admissions: Budget::new(Self::A_SECOND),
            denials: Budget::new(Self::A_SECOND),
            left_out: AtomicU64::new(0),
            rows: Mutex::default(),
        }
    }

    /// Returns the rows that pass a filter and whose limits are all shown: the newest ones, or the oldest ones after
    /// [`Filter::since`].
    pub(crate) fn page(
        &self,
        filter: &Filter,
        count: usize,
        is_shown: impl Fn(&str) -> bool,
    ) -> RecentPage {
        let (mut rows, last) = self.passing(filter, is_shown);
        let beyond = rows.len().saturating_sub(count);
        let next = match filter.since {
            Some(_) => {
                rows.truncate(count);
                rows.last().filter(|_| beyond > 0).map_or(last, |row| row.number)
            }
            None => {
                rows.drain(..beyond);
                last
            }
        };
        RecentPage { rows, next, left_out: self.left_out.load(Ordering::Relaxed) }
    }
}

impl Recent {
    /// Returns the newest rows that pass a filter and whose limits are all shown, even after [`Filter::since`].
    pub(crate) fn newest(
        &self,
        filter: &Filter,
        count: usize,
        is_shown: impl Fn(&str) -> bool,
    ) -> RecentPage {
        let (mut rows, next) = self.passing(filter, is_shown);
        rows.drain(..rows.len().saturating_sub(count));
        RecentPage { rows, next, left_out: self.left_out.load(Ordering::Relaxed) }
    }

    /// Returns all rows that pass, and the number of the last row.
    fn passing(&self, filter: &Filter, is_shown: impl Fn(&str) -> bool) -> (Vec<Arc<Entry>>, u64) {
        let filter = filter.written();
        let since = filter.since.unwrap_or(0);
        let (mut rows, last) = {
            let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            (rows.after(since), rows.last)
        };
        rows.retain(|row| filter.passes(row) && row.limits().all(&is_shown));
        (rows, last)
    }
}

impl RecentPage {
    /// Returns the number of the last row that the list has or passed over.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows as JSON, the newest decision first. The rows of a decision are in the order of its request.
    pub(crate) fn json(&self) -> Vec<u8> {
        self.json_as("recent")
    }

    /// Returns the rows as JSON, as [`RecentPage::json`] does, under another name.
    pub(crate) fn json_as(&self, name: &str) -> Vec<u8> {
        let mut bytes = format!("{{\"{name}\":[").into_bytes();
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|row| (Reverse(row.decision), row.number));
        for (index, row) in rows.into_iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            let age = Span::from(row.at.elapsed());
            let (number, ms, us) = (row.number, age.as_millis_ceil(), age.as_micros());
            let retry = row.retry_after_us.map_or_else(|| "null".to_owned(), |us| us.to_string());
            // A line begins with a brace. Writing to a `Vec` can't fail.
            let _ = write!(
                bytes,
                "{{\"number\":{number},\"age_ms\":{ms},\"age_us\":{us},\"retry_after_us\":{retry},"
            );
            bytes.extend_from_slice(row.line.get(1..).unwrap_or_default());
        }
        let Self { next, left_out, .. } = self;
        let _ = write!(bytes, "],\"next\":{next},\"left_out\":{left_out}}}");
        bytes
    }

    /// Returns the rows as the decision log has them, the oldest first.
    pub(crate) fn lines(&self) -> Vec<u8> {
        let lines = self.rows.iter().flat_map(|row| [row.line.as_slice(), b"\n"]);
        lines.flatten().copied().collect()
    }
}

impl Rows {
    /// Adds a row of a decision. It takes over the memory of the oldest one of its ring, so a decision allocates nothing
    /// once the ring is full.
    fn add(&mut self, decision: u64, at: Instant, row: &Row<'_>, client: Option<&Arc<str>>) {
        self.last += 1;
        let is_denied = row.seen.decision.is_denied();
        let ring = if is_denied { &mut self.denied } else { &mut self.admitted };
        // A page that is being written may still have the oldest one.
        let oldest = ring.take_oldest_if_full().filter(|oldest| Arc::strong_count(oldest) == 1);
        let mut entry = oldest.unwrap_or_else(|| Arc::new(Entry::new(at, row)));
        if let Some(entry) = Arc::get_mut(&mut entry) {
            entry.fill(at, row, client);
            (entry.number, entry.decision) = (self.last, decision);
        }
        ring.add(entry);
    }

    /// Returns the rows after a number, in their order.
    fn after(&self, since: u64) -> Vec<Arc<Entry>> {
        let all = self.admitted.entries.iter().chain(&self.denied.entries);
        let mut rows: Vec<_> = all.filter(|row| row.number > since).cloned().collect();
        rows.sort_by_key(|row| row.number);
        rows
    }
}

impl Ring {
    /// Maximum number of rows.
    const MOST: usize = 1_000;
    /// Maximum number of bytes of the rows together. A row with few policies has some 700 bytes.
    const MOST_BYTES: usize = 2 << 20;

    fn take_oldest_if_full(&mut self) -> Option<Arc<Entry>> {
        if self.entries.len() < Self::MOST { None } else { self.take_oldest() }
    }

    fn take_oldest(&mut self) -> Option<Arc<Entry>> {
        let oldest = self.entries.pop_front()?;
        self.bytes -= oldest.size();
        Some(oldest)
    }

    fn add(&mut self, entry: Arc<Entry>) {
        self.bytes += entry.size();
        self.entries.push_back(entry);
        while self.bytes > Self::MOST_BYTES && self.take_oldest().is_some() {}
    }
}

impl Entry {
    /// Memory for a line that is kept for later ones.
    const MOST_KEPT: usize = 2 << 10;

    /// Returns a row without content, with memory for that of most rows.
    fn new(at: Instant, row: &Row<'_>) -> Self {
        Self {
            number: 0,
            decision: 0,
            at,
            limit: row.limit.clone(),
            others: Vec::new(),
            key: String::with_capacity(64),
            outcome: Outcome::Allowed,
            source: Source::Store,
            retry_after_us: None,
            refused_by: Vec::with_capacity(2),
            client: None,
            line: Vec::with_capacity(512),
        }
    }

    /// Replaces the content.
    fn fill(&mut self, at: Instant, row: &Row<'_>, client: Option<&Arc<str>>) {
        let key = KeyForm::Plain.write(row.key);
        self.at = at;
        self.limit.clone_from(row.limit);
        self.others.clear();
        self.others.extend(row.together().cloned());
        self.key.clear();
        self.key.push_str(key.as_str());
        self.outcome = match row.seen.decision.is_allowed() {
            false => Outcome::Denied,
            true if row.is_shadow_denied() => Outcome::ShadowDenied,
            true => Outcome::Allowed,
        };
        self.source = row.source();
        self.retry_after_us = row.seen.decision.retry_after().as_micros();
        self.refused_by.clear();
        let refused = row.policies().filter(|policy| !policy.is_admitted());
        self.refused_by.extend(refused.map(|policy| policy.name().clone()));
        self.client = client.cloned();
        let client = client.map(|client| &**client);
        self.line.clear();
        self.line.shrink_to(Self::MOST_KEPT);
        let terms = LineTerms {
            key: &key,
            client,
            trace: TraceContext::current().map(|trace| trace.trace_id),
            sample: None,
            left_out: 0,
        };
        line::append(row, &terms, &mut self.line);
    }

    /// Returns all limits of the decision.
    fn limits(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.limit).chain(&self.others).map(LimitName::as_str)
    }

    /// Returns the number of bytes.
    fn size(&self) -> usize {
        let names = self.others.capacity() * size_of::<LimitName>()
            + self.refused_by.capacity() * size_of::<PolicyName>();
        size_of::<Self>() + names + self.key.capacity() + self.line.capacity()
    }
}

impl Filter {
    /// Returns the filter with the key as rows have it.
    fn written(&self) -> Self {
        let key = self.key.as_deref();
        let key = key.map(|key| KeyForm::Plain.write(key.as_bytes()).as_str().to_owned());
        Self { key, ..self.clone() }
    }

    fn passes(&self, row: &Entry) -> bool {
        fn is(wanted: Option<&String>, has: impl FnOnce(&str) -> bool) -> bool {
            wanted.is_none_or(|wanted| has(wanted))
        }
        let is_allowed = row.outcome != Outcome::Denied;
        is(self.limit.as_ref(), |limit| row.limit.as_str() == limit)
            && is(self.key.as_ref(), |key| row.key == key)
            && is(self.prefix.as_ref(), |prefix| row.key.starts_with(prefix))
            && self.source.is_none_or(|source| row.source == source)
            && is(self.client.as_ref(), |client| row.client.as_deref() == Some(client))
            && is(self.policy.as_ref(), |policy| {
                row.refused_by.iter().any(|refused| refused.as_str() == policy)
            })
            && self.outcome.is_none_or(|outcome| match outcome {
                Outcome::Allowed => is_allowed,
                outcome => row.outcome == outcome,
            })
    }
}

impl Outcome {
    /// Every outcome with its name.
    pub(crate) const ALL: [(&str, Self); 3] = [
        ("allowed", Self::Allowed),
        ("denied", Self::Denied),
        ("shadow_denied", Self::ShadowDenied),
    ];
}

impl Observer for Recent {
    fn answered(&self, answered: &Answered<'_>) {
        let Some(seen) = Seen::of(answered).filter(Seen::is_admission) else { return };
        let at = Instant::from_std(answered.at);
        let second = at.saturating_duration_since(self.started).as_secs();
        let budget = if seen.decision.is_denied() { &self.denials } else { &self.admissions };
        if !budget.take(second) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let client = Caller::name_in_decision();
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = rows.last + 1;
        for row in seen.rows() {
            rows.add(decision, at, &row, client.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sluicegate::{Limiter, MemoryStore};

    use super::*;

    fn limiter(recent: &Arc<Recent>, policies: &[&str]) -> Limiter<MemoryStore> {
        let limit = sluicegate::Limit::new("l", policies).unwrap();
        Limiter::builder(MemoryStore::new(), limit).observer(recent.clone()).build()
    }

    fn rows(recent: &Recent, filter: &Filter, count: usize) -> (Vec<Value>, u64) {
        let page = recent.page(filter, count, |_| true);
        let json: Value = serde_json::from_slice(&page.json()).unwrap();
        (json["recent"].as_array().unwrap().clone(), json["next"].as_u64().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn admitted_requests_push_out_no_denial() {
        let recent = Arc::new(Recent::new());
        let (one, many) =
            (limiter(&recent, &["gcra 1/h"]), limiter(&recent, &["gcra 9000/s burst 9000"]));
        for _ in 0..3 {
            let _ = one.check("alice").now().unwrap();
        }
        for number in 0..3 * Ring::MOST {
            let _ = many.check(&format!("key-{number}")).now().unwrap();
            let _ = many.peek("looked at").now().unwrap();
            tokio::time::advance(std::time::Duration::from_millis(2)).await;
        }
        let (all, next) = rows(&recent, &Filter::default(), 1_000);
        assert_eq!((all.len(), next), (1_000, 3 + 3_000));
        assert_eq!(all[0]["key"], "key-2999");
        let denied = Filter { outcome: Some(Outcome::Denied), ..Filter::default() };
        let (denied, _) = rows(&recent, &denied, 1_000);
        assert_eq!(denied.len(), 2);
        assert_eq!(
            (&denied[0]["key"], &denied[0]["number"], &denied[1]["number"]),
            (&"alice".into(), &3.into(), &2.into())
        );
        assert!(recent.page(&Filter::default(), 9, |limit| limit != "l").rows.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_second_the_first_admitted_and_the_first_denied_are_kept() {
        let recent = Arc::new(Recent::new());
        let limiter = limiter(&recent, &["fixed_window 1100/h"]);
        for _ in 0..1_105 {
            let _ = limiter.check("a").now().unwrap();
            let _ = limiter.peek("a").now().unwrap();
        }
        let page = recent.page(&Filter::default(), 1_000, |_| true);
        assert_eq!((page.next, page.left_out), (1_005, 100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_follower_gets_each_row_once() {
        let recent = Arc::new(Recent::new());
        let limiter = limiter(&recent, &["gcra 1/h burst 5", "gcra 1/h burst 2 shadow as s"]);
        for number in 0..7 {
            let _ = limiter.check(if number == 6 { "b" } else { "a" }).now().unwrap();
        }
        let mut filter = Filter { since: Some(0), ..Filter::default() };
        let mut numbers = Vec::new();
        for _ in 0..5 {
            let (rows, next) = rows(&recent, &filter, 2);
            numbers.extend(rows.iter().rev().map(|row| row["number"].as_u64().unwrap()));
            filter.since = Some(next);
        }
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
        let of = |filter: Filter| rows(&recent, &filter, 9).0.len();
        let (key, prefix) = (Some("a".to_owned()), Some(String::new()));
        assert_eq!(of(Filter { key, ..Filter::default() }), 6);
        assert_eq!(of(Filter { prefix, ..Filter::default() }), 7);
        for (outcome, count) in
            [(Outcome::Allowed, 6), (Outcome::Denied, 1), (Outcome::ShadowDenied, 3)]
        {
            assert_eq!(
                of(Filter { outcome: Some(outcome), ..Filter::default() }),
                count,
                "{outcome:?}"
            );
        }
        for (policy, count) in [("gcra", 1), ("s", 4), ("t", 0)] {
            let policy = Some(policy.to_owned());
            assert_eq!(of(Filter { policy, ..Filter::default() }), count);
        }
        for (source, count) in [(Source::Store, 7), (Source::Bypass, 0)] {
            let source = Some(source);
            assert_eq!(of(Filter { source, ..Filter::default() }), count);
        }
    }

    #[test]
    fn the_memory_is_bounded_in_bytes_too() {
        let recent = Arc::new(Recent::new());
        let specs: Vec<_> =
            (0..64).map(|index| format!("gcra 1/s as policy-with-a-long-name-{index}")).collect();
        let limiter = limiter(&recent, &specs.iter().map(String::as_str).collect::<Vec<_>>());
        for number in 0..1_000 {
            let _ = limiter.check(&format!("{number}{}", "k".repeat(999))).now().unwrap();
        }
        let rows = recent.rows.lock().unwrap();
        assert!(rows.admitted.bytes <= Ring::MOST_BYTES && rows.admitted.entries.len() < 500);
    }
}
