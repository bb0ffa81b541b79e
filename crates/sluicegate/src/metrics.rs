//! Counters of answers, for Prometheus.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric as _, LabelValueEncoder,
    MetricEncoder, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use sluicegate_core::{
    Decision, Limit, LimitName, Measure, MeasureKind, Notes, Operation, PolicyName, SharedStore,
    Source, Store, StoreError, StoreErrorKind,
};

use crate::observe::{Answered, Observer, Settled};

/// Counts answers, and writes the counters in the OpenMetrics text format that Prometheus scrapes.
///
/// Labels are the names of limits and policies, which the configuration bounds, and never a key,
/// which clients choose. Beyond [`Metrics::MAX_SERIES`] different sets of labels, answers count
/// under the limit `other`.
///
/// | metric | labels | counts |
/// | --- | --- | --- |
/// | `sluicegate_decisions_total` | `limit`, `policy`, `outcome` | checks; `policy` is the one that binds, empty when none does. The outcomes `allowed`, `denied`, `bypassed`, `blocked`, `failed_open`, `failed_closed`, `local_allowed`, `local_denied` add up to all checks that were answered; `shadow_denied` counts a watching policy that would have denied |
/// | `sluicegate_check_duration_seconds` | | how long the store took to answer a check, or to fail; not of those that asked nothing |
/// | `sluicegate_store_errors_total` | `kind` | calls that the store failed |
/// | `sluicegate_store_calls_total`, `sluicegate_store_requests_total` | | what was sent to servers, and the requests in it; of a store that is [added](Metrics::add_store), as all that follows |
/// | `sluicegate_breaker_open`, `…_openings_total`, `…_refusals_total` | `node` | whether a store is left alone, how often it was, and the requests that failed for it |
/// | `sluicegate_deny_cache_answers_total` | | denials that were answered again without asking |
/// | `sluicegate_lease_answers_total`, `…_asked_total` | | requests of leased limits decided without asking the store, and those that it was asked about |
/// | `sluicegate_lease_units_granted_total`, `…_spent_total`, `…_returned_total`, `…_expired_total` | | leased units, and what became of them |
/// | `sluicegate_fallback_answers_total` | `allowed` | requests decided by the share of this process |
/// | `sluicegate_fallback_charges_total` | `outcome` | keys charged when the store was back: `charged`, or `unknown` whether |
/// | `sluicegate_fallback_active`, `…_owing_keys`, `…_processes` | | the stores or nodes that are stood in for, the keys to be charged, the processes that share the limits |
/// | `sluicegate_state_notes_total` | `note` | answers of the store with a note: `discarded`, a state could not be read and counted as absent; `restamped`, one was stamped far ahead of now; `full`, a bounded store had no room |
///
/// ```
/// use std::sync::Arc;
/// use sluicegate::{Limiter, MemoryStore, metrics::Metrics};
///
/// let metrics = Arc::new(Metrics::new());
/// let limit = sluicegate::limit("login", ["gcra 1/s burst 1 as steady"])?;
/// let limiter = Limiter::builder(MemoryStore::new(), limit)
///     .observer(metrics.clone())
///     .build();
/// for _ in 0..3 {
///     let _ = limiter.check_now("alice")?;
/// }
/// let text = metrics.render()?;
/// assert!(text.contains(r#"decisions_total{limit="login",policy="steady",outcome="denied"} 2"#));
/// assert!(!text.contains("alice"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Metrics {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    series: AtomicUsize,
    duration: Histogram,
    store_errors: Family<StoreErrorLabels, Counter>,
    notes: Family<NoteLabels, Counter>,
    bans: Family<BanLabels, Counter>,
    stores: Stores,
}

/// The stores whose own numbers are written too.
#[derive(Clone, Default)]
struct Stores(Arc<RwLock<Vec<SharedStore>>>);

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct DecisionLabels {
    limit: LimitLabel,
    policy: PolicyLabel,
    outcome: &'static str,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum LimitLabel {
    Named(LimitName),
    Other,
}

/// `None` if none binds.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct PolicyLabel(Option<PolicyName>);

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StoreErrorLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct NoteLabels {
    note: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct BanLabels {
    limit: LimitLabel,
}

impl Metrics {
    /// The content type of the text.
    pub const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// The maximum number of label sets that are counted separately.
    pub const MAX_SERIES: usize = 10_000;

    /// In seconds. An embedded decision falls below the first bucket, a timeout into the last.
    const BUCKETS: [f64; 13] =
        [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 1.0, 5.0];

    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        let decisions = Family::default();
        let duration = Histogram::new(Self::BUCKETS);
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
        let notes = Family::<NoteLabels, Counter>::default();
        for (note, _) in noted(Notes::default()) {
            drop(notes.get_or_create(&NoteLabels { note }));
        }
        let mut registry = Registry::with_prefix("sluicegate");
        registry.register(
            "decisions",
            "Checks by limit, binding policy (empty when none binds) and outcome",
            decisions.clone(),
        );
        registry.register(
            "check_duration_seconds",
            "How long the store took to answer a check",
            duration.clone(),
        );
        registry.register(
            "store_errors",
            "Calls that the store failed, by kind",
            store_errors.clone(),
        );
        registry.register(
            "state_notes",
            "Answers of the store with a note on the states it found",
            notes.clone(),
        );
        let bans = Family::<BanLabels, Counter>::default();
        registry.register("bans", "Bans that began, by the limit that bans", bans.clone());
        let stores = Stores::default();
        registry.register_collector(Box::new(stores.clone()));
        let series = AtomicUsize::new(0);
        Self { registry, decisions, series, duration, store_errors, notes, bans, stores }
    }

    /// Writes what a store and its layers count, too: once for all limits in it.
    ///
    /// ```
    /// use sluicegate::layers::DenyCache;
    /// use sluicegate::{Limiter, MemoryStore, metrics::Metrics};
    ///
    /// let (metrics, store) = (Metrics::new(), DenyCache::new(MemoryStore::new()));
    /// metrics.add_store(store.clone());
    /// let limiter = Limiter::new(store, sluicegate::limit("login", ["gcra 1/h"])?);
    /// for _ in 0..3 {
    ///     let _ = limiter.check_now("alice")?;
    /// }
    /// assert!(metrics.render()?.contains("sluicegate_deny_cache_answers_total 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_store(&self, store: impl Store) {
        self.stores.0.write().unwrap_or_else(PoisonError::into_inner).push(SharedStore::new(store));
    }

    /// The metrics as text.
    ///
    /// # Errors
    /// Never in practice: writing to a string doesn't fail.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.encode(&mut text)?;
        text::encode_eof(&mut text)?;
        Ok(text)
    }

    /// Writes the metrics without the final `# EOF`, for a program that appends metrics of its own.
    ///
    /// # Errors
    /// Those of `text`.
    pub fn encode(&self, text: &mut impl fmt::Write) -> fmt::Result {
        text::encode_registry(text, &self.registry)
    }

    fn decided(&self, limit: &Limit, decision: &Decision) {
        let outcome = match (decision.source(), decision.is_allowed()) {
            (Source::Fallback, true) if decision.is_assumed() => "failed_open",
            (Source::Fallback, false) if decision.is_assumed() => "failed_closed",
            (Source::Fallback, true) => "local_allowed",
            (Source::Fallback, false) => "local_denied",
            (Source::Bypass, true) => "bypassed",
            (Source::Bypass, false) => "blocked",
            (_, true) => "allowed",
            (_, false) => "denied",
        };
        let binding = decision.binding().map(|binding| binding.name().clone());
        self.count(limit, binding, outcome);
        for outcome in decision.policies() {
            if outcome.is_shadow() && !outcome.is_admitted() {
                self.count(limit, Some(outcome.name().clone()), "shadow_denied");
            }
        }
    }

    fn count(&self, limit: &Limit, policy: Option<PolicyName>, outcome: &'static str) {
        let mut labels = DecisionLabels {
            limit: LimitLabel::Named(limit.name().clone()),
            policy: PolicyLabel(policy),
            outcome,
        };
        if let Some(counter) = self.decisions.get(&labels) {
            counter.inc();
            return;
        }
        // A race may count one set twice, which only lowers the maximum a little.
        if self.series.fetch_add(1, Ordering::Relaxed) >= Self::MAX_SERIES {
            self.series.fetch_sub(1, Ordering::Relaxed);
            labels.limit = LimitLabel::Other;
            labels.policy = PolicyLabel(None);
        }
        self.decisions.get_or_create(&labels).inc();
    }

    /// Counts what befell the store, whatever it was asked.
    fn noticed(&self, failure: Option<&StoreError>, decision: Option<&Decision>) {
        if let Some(error) = failure {
            self.store_errors.get_or_create(&StoreErrorLabels::new(error.kind())).inc();
        }
        let begun = decision.filter(|decision| decision.ban().is_some_and(|ban| ban.begins));
        if let Some(name) = begun.and_then(Decision::banned_by) {
            self.bans.get_or_create(&BanLabels { limit: LimitLabel::Named(name.clone()) }).inc();
        }
        for (note, is_there) in noted(decision.map_or_else(Notes::default, Decision::notes)) {
            if is_there {
                self.notes.get_or_create(&NoteLabels { note }).inc();
            }
        }
    }
}

impl Observer for Metrics {
    fn answered(&self, answered: &Answered<'_>) {
        let decision = answered.outcome.ok();
        self.noticed(answered.failure, decision);
        let takes = matches!(
            answered.operation,
            Operation::Check | Operation::Reserve { .. } | Operation::TakeUpTo
        );
        if takes {
            if decision.is_none_or(|decision| decision.source() != Source::Bypass) {
                self.duration.observe(answered.took.as_secs_f64());
            }
            if let Some(decision) = decision {
                self.decided(answered.limit, decision);
            }
        }
    }

    fn settled(&self, settled: &Settled<'_>) {
        self.noticed(settled.failure, settled.outcome.ok());
    }
}

impl Collector for Stores {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stores = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut measures: Vec<Measure> = stores.iter().flat_map(Store::measures).collect();
        // All of one name are one family, also those of several stores.
        measures.sort_by(|one, other| {
            one.name().cmp(other.name()).then_with(|| one.labels().cmp(other.labels()))
        });
        for family in measures.chunk_by(|one, other| one.name() == other.name()) {
            let (name, help, kind) = (family[0].name(), family[0].help(), family[0].kind());
            let metric_type = match kind {
                MeasureKind::Counter => MetricType::Counter,
                MeasureKind::Gauge => MetricType::Gauge,
            };
            let mut family_encoder = encoder.encode_descriptor(name, help, None, metric_type)?;
            if family[0].labels().len() == 0 {
                encode(kind, family, family_encoder)?;
                continue;
            }
            for same in family.chunk_by(|one, other| one.labels().eq(other.labels())) {
                let labels: Vec<_> = same[0].labels().collect();
                encode(kind, same, family_encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Writes the sum of what is measured under the same labels.
fn encode(kind: MeasureKind, same: &[Measure], encoder: MetricEncoder<'_>) -> fmt::Result {
    let sum = same.iter().map(Measure::value).fold(0, u64::saturating_add);
    match kind {
        MeasureKind::Counter => ConstCounter::new(sum).encode(encoder),
        MeasureKind::Gauge => ConstGauge::new(sum).encode(encoder),
    }
}

const fn noted(notes: Notes) -> [(&'static str, bool); 3] {
    [("discarded", notes.discarded), ("restamped", notes.restamped), ("full", notes.full)]
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stores").finish_non_exhaustive()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("series", &self.series).finish_non_exhaustive()
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

impl EncodeLabelValue for LimitLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => name.as_str().encode(encoder),
            Self::Other => "other".encode(encoder),
        }
    }
}

impl EncodeLabelValue for PolicyLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.as_ref().map_or("", PolicyName::as_str).encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{Limiter, MemoryStore, limit};

    #[test]
    fn a_shadow_that_would_have_denied_is_counted_by_its_name() {
        let metrics = Arc::new(Metrics::new());
        let limit = limit("l", ["gcra 9/s", "gcra 1/s burst 1 shadow as strict"]).unwrap();
        let limiter = Limiter::builder(MemoryStore::new(), limit).observer(metrics.clone()).build();
        for _ in 0..3 {
            assert!(limiter.check_now("k").unwrap().is_allowed());
        }
        assert!(limiter.peek_now("k").unwrap().is_allowed());
        let text = metrics.render().unwrap();
        for line in [
            r#"sluicegate_decisions_total{limit="l",policy="",outcome="allowed"} 3"#,
            r#"sluicegate_decisions_total{limit="l",policy="strict",outcome="shadow_denied"} 2"#,
            "sluicegate_check_duration_seconds_count 3",
            r#"sluicegate_store_errors_total{kind="timeout"} 0"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
        }
    }

    #[test]
    fn what_was_not_asked_took_no_time_and_what_is_noted_is_counted() {
        let metrics = Metrics::new();
        let limit = limit("l", ["gcra 1/s"]).unwrap();
        let mut store = MemoryStore::builder();
        store = store.max_keys(NonZeroUsize::MIN).overflow(sluicegate_memory::Overflow::Deny);
        let limiter = Limiter::new(store.build(), limit.clone());
        let answers = [
            Decision::bypass(true),
            limiter.check_now("a").unwrap(),
            limiter.check_now("b").unwrap(),
        ];
        for decision in &answers {
            metrics.answered(&Answered {
                limit: &limit,
                key: b"k",
                operation: Operation::Check,
                outcome: Ok(decision),
                failure: None,
                took: Duration::ZERO,
            });
        }
        let text = metrics.render().unwrap();
        for line in [
            "sluicegate_check_duration_seconds_count 2",
            r#"sluicegate_state_notes_total{note="full"} 1"#,
            r#"sluicegate_state_notes_total{note="discarded"} 0"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
        }
    }

    #[test]
    fn more_limits_than_are_counted_apart_are_counted_together() {
        let metrics = Metrics::new();
        for index in 0..Metrics::MAX_SERIES + 100 {
            let limit = limit(&format!("l{index}"), ["gcra 1/s"]).unwrap();
            metrics.decided(&limit, &Decision::fallback(&limit, true));
        }
        let text = metrics.render().unwrap();
        let series = text.lines().filter(|line| line.starts_with("sluicegate_decisions_total"));
        assert_eq!(series.count(), Metrics::MAX_SERIES + 1);
        assert!(text.contains(r#"{limit="other",policy="",outcome="failed_open"} 100"#));
    }
}
