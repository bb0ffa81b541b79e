//! What the service counts, for Prometheus. No label ever holds a key.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tollgate::{AnyStore, Decision, Limit, Source, StoreError, StoreErrorKind};

use crate::answer::binding;

/// The counters of one service.
pub(super) struct Metrics {
    registry: Registry,
    decisions: Family<DecisionLabels, Counter>,
    duration: Histogram,
    store_errors: Family<StoreErrorLabels, Counter>,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct DecisionLabels {
    limit: String,
    policy: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct StoreErrorLabels {
    kind: &'static str,
}

impl StoreErrorLabels {
    const fn new(kind: StoreErrorKind) -> Self {
        Self {
            kind: match kind {
                StoreErrorKind::Disconnected => "disconnected",
                StoreErrorKind::Timeout => "timeout",
                StoreErrorKind::Unavailable => "unavailable",
                _ => "unexpected",
            },
        }
    }
}

impl Metrics {
    /// What a scraper is told that the text is.
    pub(super) const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// In seconds: an embedded decision takes less than the first, a lost one the last.
    const BUCKETS: [f64; 13] =
        [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 1.0, 5.0];

    pub(super) fn new(store: Option<AnyStore>) -> Self {
        let decisions = Family::default();
        let duration = Histogram::new(Self::BUCKETS);
        let store_errors = Family::<StoreErrorLabels, Counter>::default();
        // From the first scrape on, so that the first error is an increase.
        for kind in [
            StoreErrorKind::Disconnected,
            StoreErrorKind::Timeout,
            StoreErrorKind::Unavailable,
            StoreErrorKind::Unexpected,
        ] {
            drop(store_errors.get_or_create(&StoreErrorLabels::new(kind)));
        }
        let mut registry = Registry::with_prefix("tollgate");
        registry.register(
            "decisions",
            "Checks by limit, binding policy (empty when none binds) and outcome: allowed, denied, \
             failed_open and failed_closed add up to all checks; shadow_denied counts a watching policy \
             that would have denied",
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
            "build",
            "The version of the service",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        if let Some(store) = store {
            registry.register_collector(Box::new(StoreCollector(store)));
        }
        Self { registry, decisions, duration, store_errors }
    }

    pub(super) fn decided(&self, limit: &Limit, decision: &Decision, took: Duration) {
        self.duration.observe(took.as_secs_f64());
        let outcome = match (decision.source(), decision.is_allowed()) {
            (Source::Fallback, true) => "failed_open",
            (Source::Fallback, false) => "failed_closed",
            (_, true) => "allowed",
            (_, false) => "denied",
        };
        self.count(limit, binding(limit, decision).unwrap_or_default(), outcome);
        for (member, outcome) in limit.members().iter().zip(decision.policies()) {
            if outcome.is_shadow() && !outcome.is_admitted() {
                self.count(limit, member.name().as_str(), "shadow_denied");
            }
        }
    }

    pub(super) fn failed(&self, error: &StoreError) {
        self.store_errors.get_or_create(&StoreErrorLabels::new(error.kind())).inc();
    }

    pub(super) fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn count(&self, limit: &Limit, policy: &str, outcome: &'static str) {
        let labels = DecisionLabels {
            limit: limit.name().as_str().to_owned(),
            policy: policy.to_owned(),
            outcome,
        };
        self.decisions.get_or_create(&labels).inc();
    }
}

/// Asks the embedded store for its numbers when somebody scrapes.
#[derive(Debug)]
struct StoreCollector(AnyStore);

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(stats) = self.0.stats() else {
            return Ok(());
        };
        for (name, help, number) in [
            ("store_keys", "Keys that the embedded store holds", stats.keys),
            ("store_max_keys", "The most keys that the embedded store may hold", stats.max_keys),
            ("store_bytes", "Memory that the embedded store's tables take", stats.bytes),
        ] {
            let gauge = ConstGauge::new(u64::try_from(number).unwrap_or(u64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let evictions = ConstCounter::new(stats.evicted_live);
        let help = "Keys with consumption that the embedded store dropped because it was full";
        evictions.encode(encoder.encode_descriptor(
            "store_evictions",
            help,
            None,
            evictions.metric_type(),
        )?)
    }
}
