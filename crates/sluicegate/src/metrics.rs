//! Counters of answers, for Prometheus.
//!
//! [`Metrics`] is an [`Observer`] that counts, and writes the counters in a [`MetricsFormat`].

mod format;
mod latency;
mod limits;
mod stores;

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use sluicegate_core::{
    Decision, HistogramCounts, Limit, PolicyName, SharedStore, Source, Store, StoreError,
    StoreErrorKind, Warnings,
};

pub use format::MetricsFormat;
use latency::Latency;
use limits::{Count, LimitCounters};
use stores::Stores;

use crate::observe::{Answered, Configured, Observer, Settled};

/// Counters of answers, written in a text format that Prometheus scrapes.
///
/// Labels are the names of limits and policies, and never a key, because clients choose keys. The series of a
/// registry's limits exist from the start, those of another limit from its first answer. There are at most
/// [`Metrics::MAX_SERIES`] series, or [another number](Metrics::with_max_series). Limits beyond it count together under
/// the limit `other`, and the log says so once. A limit that a new configuration doesn't have loses its series.
///
/// A request to several limits counts once for each of them. The limit that refused counts `denied`. The others count
/// `denied_together`: they would have admitted the request, and it took no units of them.
///
/// | metric | labels | counts |
/// | --- | --- | --- |
/// | `sluicegate_decisions_total` | `limit`, `policy`, `outcome` | checks; `policy` is the limit's policy that binds, empty when none does. `shadow_denied` counts a shadow policy that would have denied. The other outcomes add up to all checks that were answered. They are `allowed`, `denied`, `denied_together`, `store_full`, `bypassed`, `blocked`, `failed_open`, `failed_closed`, `local_allowed` and `local_denied` |
/// | `sluicegate_decisions_together_total` | `limit` | checks that the limit decided together with other limits |
/// | `sluicegate_bans_total` | `limit` | bans that began |
/// | `sluicegate_decision_seconds` | | time from a check to its answer or error; not of checks that asked no limit |
/// | `sluicegate_wait_seconds` | | time from a request that could wait to its answer, after the wait |
/// | `sluicegate_store_errors_total` | `kind` | calls that the store failed |
/// | `sluicegate_store_calls_total`, `sluicegate_store_requests_total`, `sluicegate_store_call_seconds` | | calls to servers, the requests in them, and the time to a reply. These and all the following are those of [added](Metrics::add_store) stores |
/// | `sluicegate_breaker_open`, `…_openings_total`, `…_refusals_total` | `node` | whether the breaker of a store is open, the number of times it opened, and the requests that it refused |
/// | `sluicegate_deny_cache_answers_total` | | denials that were repeated without calling the store |
/// | `sluicegate_lease_answers_total`, `…_asked_total` | | requests of leased limits decided without calling the store, and those for which it was called |
/// | `sluicegate_lease_seconds` | | time of the store to answer a request for a lease |
/// | `sluicegate_lease_units_granted_total`, `…_spent_total`, `…_returned_total`, `…_expired_total` | | leased units, and their outcome |
/// | `sluicegate_fallback_answers_total` | `allowed` | requests decided by the share of this process |
/// | `sluicegate_fallback_charges_total` | `outcome` | keys charged after the store had recovered: `charged`, or `unknown` whether |
/// | `sluicegate_fallback_active`, `…_owing_keys`, `…_processes` | | the stores or nodes for which the local limiter has taken over, the keys with pending charges, the processes that share the limits |
/// | `sluicegate_state_notes_total` | `note` | answers of the store with a note. `discarded`: a state could not be read and counted as absent. `restamped`: a state was stamped far ahead of now. `full`: a bounded store had no capacity |
///
/// ```
/// use std::sync::Arc;
/// use sluicegate::metrics::{Metrics, MetricsFormat};
/// use sluicegate::{Limiter, MemoryStore};
///
/// let metrics = Arc::new(Metrics::new());
/// let limit = sluicegate::Limit::new("login", ["gcra 1/s burst 1 as steady"])?;
/// let limiter = Limiter::builder(MemoryStore::new(), limit)
///     .observer(metrics.clone())
///     .build();
/// for _ in 0..3 {
///     let _ = limiter.check("alice").now()?;
/// }
/// let text = metrics.render(MetricsFormat::Text)?;
/// assert!(text.contains(r#"decisions_total{limit="login",policy="steady",outcome="denied"} 2"#));
/// assert!(!text.contains("alice"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Metrics {
    registry: Registry,
    limits: LimitCounters,
    decisions: Latency,
    waits: Latency,
    /// Returns the trace of the request whose answer is observed.
    trace_id: Option<fn() -> Option<[u8; 16]>>,
    store_errors: Family<StoreErrorLabels, Counter>,
    warnings: Family<NoteLabels, Counter>,
    stores: Stores,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StoreErrorLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct NoteLabels {
    note: &'static str,
}

impl Metrics {
    /// The default of [`Metrics::with_max_series`].
    pub const MAX_SERIES: usize = 10_000;

    /// Makes counters at zero, with at most [`Metrics::MAX_SERIES`] series of limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_series(Self::MAX_SERIES)
    }

    /// Makes counters at zero, with at most `most` series of limits: different sets of labels in the metrics that have
    /// the label `limit`. Series of the limit `other` aren't counted.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::metrics::{Metrics, MetricsFormat};
    /// use sluicegate::{MemoryStore, Registry};
    ///
    /// let metrics = Arc::new(Metrics::with_max_series(10));
    /// let builder = Registry::builder(MemoryStore::new()).observer(metrics.clone());
    /// let [login, search] = ["login", "search"].map(|name| sluicegate::Limit::new(name, ["gcra 1/s"]));
    /// let registry = builder.limit(login?).limit(search?).build();
    /// let _ = registry.gate("search").check("alice").now()?;
    /// let text = metrics.render(MetricsFormat::Text)?;
    /// assert!(text.contains(r#"decisions_total{limit="login",policy="",outcome="allowed"} 0"#));
    /// assert!(text.contains(r#"decisions_total{limit="other",policy="",outcome="allowed"} 1"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_max_series(most: usize) -> Self {
        let limits = LimitCounters::new(most);
        let decisions = Latency::new("decision", "Time from a check to its answer or error");
        let help = "Time from a request that could wait to its answer, after the wait";
        let waits = Latency::new("wait", help);
        let store_errors = Family::<StoreErrorLabels, Counter>::default();
        // Present from the first scrape on, so that the first error is an increase.
        for kind in [
            StoreErrorKind::Disconnected,
            StoreErrorKind::Timeout,
            StoreErrorKind::Unavailable,
            StoreErrorKind::Overloaded,
            StoreErrorKind::Unacknowledged,
            StoreErrorKind::Unexpected,
        ] {
            drop(store_errors.get_or_create(&StoreErrorLabels::new(kind)));
        }
        let warnings = Family::<NoteLabels, Counter>::default();
        for (note, _) in noted(Warnings::default()) {
            drop(warnings.get_or_create(&NoteLabels { note }));
        }
        let mut registry = Registry::with_prefix("sluicegate");
        registry.register_collector(Box::new(limits.clone()));
        registry.register_collector(Box::new(decisions.clone()));
        registry.register_collector(Box::new(waits.clone()));
        registry.register(
            "store_errors",
            "Calls that the store failed, by kind",
            store_errors.clone(),
        );
        registry.register(
            "state_notes",
            "Answers of the store with a note on the states it found",
            warnings.clone(),
        );
        let stores = Stores::default();
        registry.register_collector(Box::new(stores.clone()));
        Self { registry, limits, decisions, waits, trace_id: None, store_errors, warnings, stores }
    }

    /// Counts limits that no registry has together, under the limit `other`. It is for programs whose clients name limits
    /// ([`Registry::gate_with_numbers`](crate::Registry::gate_with_numbers)), because labels must not come from clients.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::metrics::{Metrics, MetricsFormat};
    /// use sluicegate::{Limit, MemoryStore, Registry};
    ///
    /// let metrics = Arc::new(Metrics::new().only_of_registries());
    /// let registry = Registry::builder(MemoryStore::new()).observer(metrics.clone()).build();
    /// let tier = registry.gate_with_numbers(Limit::new("tier", ["gcra 1/s"])?);
    /// let _ = tier.check("acme").now()?;
    /// let text = metrics.render(MetricsFormat::Text)?;
    /// assert!(text.contains(r#"decisions_total{limit="other",policy="",outcome="allowed"} 1"#));
    /// assert!(!text.contains("tier"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn only_of_registries(mut self) -> Self {
        self.limits.only_of_registries = true;
        self
    }

    /// Returns whether the maximum number of series is reached, so that further limits count together under `other`.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.limits.is_full()
    }

    /// Counts a limit under its own name, even if no registry has it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::metrics::{Metrics, MetricsFormat};
    /// use sluicegate::{Limit, MemoryStore, Registry};
    ///
    /// let metrics = Arc::new(Metrics::new().only_of_registries());
    /// let tier = Limit::new("tier", ["gcra 1/s"])?;
    /// metrics.add_limit(&tier);
    /// let registry = Registry::builder(MemoryStore::new()).observer(metrics.clone()).build();
    /// let _ = registry.gate_with_numbers(tier).check("acme").now()?;
    /// let text = metrics.render(MetricsFormat::Text)?;
    /// assert!(text.contains(r#"decisions_total{limit="tier",policy="",outcome="allowed"} 1"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_limit(&self, limit: &Limit) {
        self.limits.add_parts(limit);
    }

    /// Also writes the numbers of a store and its layers: once for all limits in it.
    ///
    /// ```
    /// use sluicegate::layers::DenyCache;
    /// use sluicegate::metrics::{Metrics, MetricsFormat};
    /// use sluicegate::{Limiter, MemoryStore};
    ///
    /// let (metrics, store) = (Metrics::new(), DenyCache::new(MemoryStore::new()));
    /// metrics.add_store(store.clone());
    /// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["gcra 1/h"])?);
    /// for _ in 0..3 {
    ///     let _ = limiter.check("alice").now()?;
    /// }
    /// let text = metrics.render(MetricsFormat::Text)?;
    /// assert!(text.contains("sluicegate_deny_cache_answers_total 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_store(&self, store: impl Store) {
        self.stores.add(SharedStore::new(store));
    }

    /// Adds the traces of requests to the histograms, as exemplars in the format OpenMetrics.
    ///
    /// `trace_id` returns the trace id of the request whose answer is observed, if that trace is sampled. It runs on the
    /// thread of each answer, so it must be fast.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::metrics::{Metrics, MetricsFormat};
    /// use sluicegate::{Limit, Limiter, MemoryStore};
    ///
    /// let metrics = Arc::new(Metrics::new().with_traces(|| Some([0xab; 16])));
    /// let limit = Limit::new("login", ["gcra 1/s"])?;
    /// let limiter = Limiter::builder(MemoryStore::new(), limit).observer(metrics.clone()).build();
    /// let _ = limiter.check("alice").now()?;
    /// let text = metrics.render(MetricsFormat::OpenMetrics)?;
    /// assert!(text.contains(r#" # {trace_id="abababababababababababababababab"} "#));
    /// assert!(!metrics.render(MetricsFormat::Text)?.contains("trace_id"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_traces(mut self, trace_id: fn() -> Option<[u8; 16]>) -> Self {
        self.trace_id = Some(trace_id);
        self
    }

    /// Returns the durations of the decisions up to now: `sluicegate_decision_seconds`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::metrics::Metrics;
    /// use sluicegate::{Limit, Limiter, MemoryStore};
    ///
    /// let metrics = Arc::new(Metrics::new());
    /// let limit = Limit::new("login", ["gcra 1/s"])?;
    /// let limiter = Limiter::builder(MemoryStore::new(), limit).observer(metrics.clone()).build();
    /// let before = metrics.decision_durations();
    /// let _ = limiter.check("alice").now()?;
    /// let since = metrics.decision_durations().since(&before);
    /// assert_eq!(since.total(), 1);
    /// assert!(since.quantile(990).is_some(), "an estimate of the 99th percentile");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn decision_durations(&self) -> HistogramCounts {
        self.decisions.counts()
    }

    /// Returns the durations of the requests that could wait up to now: `sluicegate_wait_seconds`.
    #[must_use]
    pub fn wait_durations(&self) -> HistogramCounts {
        self.waits.counts()
    }

    /// Returns the durations of the calls to servers up to now, of all [added stores](Self::add_store):
    /// `sluicegate_store_call_seconds`. `None` if no store calls a server.
    #[must_use]
    pub fn store_call_durations(&self) -> Option<HistogramCounts> {
        self.stores.call_durations()
    }

    /// Returns the metrics as a page. Its content type is [`MetricsFormat::content_type`].
    ///
    /// # Errors
    /// Returns no error in practice: writing to a string doesn't fail.
    pub fn render(&self, format: MetricsFormat) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.encode(&mut text)?;
        Ok(format.page(&text))
    }

    /// Writes the metrics as OpenMetrics text without the final `# EOF`, for a program that appends its own metrics.
    /// [`MetricsFormat::page`] makes a page of the whole text.
    ///
    /// # Errors
    /// Returns the errors of `text`.
    pub fn encode(&self, text: &mut impl fmt::Write) -> fmt::Result {
        if self.trace_id.is_none() {
            return text::encode_registry(text, &self.registry);
        }
        let mut page = String::new();
        text::encode_registry(&mut page, &self.registry)?;
        let page = self.decisions.add_exemplars(&page)?;
        text.write_str(&self.waits.add_exemplars(&page)?)
    }

    /// Returns the trace of the request whose answer is observed.
    #[inline]
    fn current_trace(&self) -> Option<[u8; 16]> {
        self.trace_id.and_then(|trace_id| trace_id())
    }

    /// Counts a check for each limit that decided it.
    fn decided(&self, answered: &Answered<'_>, decision: &Decision) {
        let is_together = answered.keys.len() + answered.unasked.len() > 1;
        for part in 0..answered.limit.parts().len() {
            let count = |count, policy| self.limits.count(answered.limit, part, count, policy);
            let (outcome, policy) = outcome(decision, part);
            count(outcome, policy);
            if is_together {
                count(Count::Together, None);
            }
            for policy in decision.policies().filter(|policy| policy.member().part() == part) {
                if policy.is_shadow() && !policy.is_admitted() {
                    count(Count::ShadowDenied, Some(policy.name()));
                }
            }
        }
        for (name, _) in answered.unasked {
            self.limits.count_named(name, Count::Bypassed);
            self.limits.count_named(name, Count::Together);
        }
    }

    /// Counts what the store noticed during any operation.
    fn noticed(&self, failure: Option<&StoreError>, decision: Option<&Decision>) {
        if let Some(error) = failure {
            self.store_errors.get_or_create(&StoreErrorLabels::new(error.kind())).inc();
        }
        let limit = decision.and_then(Decision::limit);
        let begun = decision.and_then(Decision::ban).filter(|ban| ban.begins);
        if let Some((limit, ban)) = limit.zip(begun) {
            self.limits.count(limit, ban.part, Count::Ban, None);
        }
        for (note, is_there) in noted(decision.map_or_else(Warnings::default, Decision::warnings)) {
            if is_there {
                self.warnings.get_or_create(&NoteLabels { note }).inc();
            }
        }
    }
}

impl Observer for Metrics {
    fn answered(&self, answered: &Answered<'_>) {
        let decision = answered.outcome.ok();
        self.noticed(answered.failure, decision);
        if answered.is_admission() {
            if decision.is_none_or(|decision| decision.source() != Source::Bypass) {
                self.decisions.observe(answered.took, self.current_trace());
            }
            if let Some(decision) = decision {
                self.decided(answered, decision);
            }
        }
    }

    fn settled(&self, settled: &Settled<'_>) {
        self.noticed(settled.failure, settled.outcome.ok());
    }

    fn waited(&self, _: &Limit, took: Duration) {
        self.waits.observe(took, self.current_trace());
    }

    fn reported(&self, limit: &Limit, allowed: u64, denied: u64) {
        self.limits.count_reported(limit, allowed, denied);
    }

    fn configured(&self, configured: &Configured<'_>) {
        self.limits.configure(configured);
    }
}

/// Returns the outcome of a decision for one of the limits that made it, and that limit's binding policy.
fn outcome(decision: &Decision, part: usize) -> (Count, Option<&PolicyName>) {
    let policy = decision.binding_of(part).map(|binding| binding.name());
    let is_denied_by_other = decision.binding_limit().is_some() && !decision.is_refused_by(part);
    match (decision.source(), decision.is_allowed()) {
        (Source::Fallback, true) if decision.is_assumed() => (Count::FailedOpen, None),
        (Source::Fallback, false) if decision.is_assumed() => (Count::FailedClosed, None),
        (Source::Bypass, true) => (Count::Bypassed, None),
        (Source::Bypass, false) => (Count::Blocked, None),
        (Source::Fallback, true) => (Count::LocalAllowed, None),
        (_, true) => (Count::Allowed, None),
        (_, false) if decision.is_store_full() => (Count::StoreFull, None),
        (_, false) if is_denied_by_other => (Count::DeniedTogether, None),
        (Source::Fallback, false) => (Count::LocalDenied, policy),
        (_, false) => (Count::Denied, policy),
    }
}

const fn noted(warnings: Warnings) -> [(&'static str, bool); 3] {
    [("discarded", warnings.discarded), ("restamped", warnings.restamped), ("full", warnings.full)]
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl StoreErrorLabels {
    const fn new(kind: StoreErrorKind) -> Self {
        Self {
            kind: match kind {
                StoreErrorKind::Disconnected => "disconnected",
                StoreErrorKind::Timeout => "timeout",
                StoreErrorKind::Unavailable => "unavailable",
                StoreErrorKind::Overloaded => "overloaded",
                StoreErrorKind::Unacknowledged => "unacknowledged",
                _ => "unexpected",
            },
        }
    }
}

#[cfg(test)]
mod tests;
