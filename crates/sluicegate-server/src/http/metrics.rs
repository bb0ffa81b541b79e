//! The service's metrics, for Prometheus. No label ever contains a key.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
#[cfg(feature = "resp")]
use sluicegate::Limit;
use sluicegate::Registry;
use sluicegate::config::Watch;
use sluicegate::metrics::{Metrics, MetricsFormat};
use sluicegate::store::{Store as _, StoreStats};
use sluicegate::testing::{Clock as _, SystemClock};

use super::readiness::{Readiness, ReadinessCollector};
use super::waiting::Waiting;
use crate::access::{Access, AccessCollector};
use crate::serving::{ListenerState, ListenersCollector};

/// The library's counters of answers, and the service's own metrics.
pub(super) struct ServiceMetrics {
    answers: Arc<Metrics>,
    service: prometheus_client::registry::Registry,
}

impl ServiceMetrics {
    pub(super) fn new(
        answers: Arc<Metrics>,
        limits: &Registry,
        watch: Option<Arc<Watch>>,
        listeners: &[ListenerState],
        waiting: &Arc<Waiting>,
        readiness: &Arc<Readiness>,
        access: &Arc<Access>,
    ) -> Self {
        let mut service = prometheus_client::registry::Registry::with_prefix("sluicegate");
        service.register(
            "build",
            "The version of the service, and its features",
            Info::new([
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
                ("features", features()),
            ]),
        );
        let started = SystemClock::new().now().as_micros() / 1_000_000;
        service.register_collector(Box::new(ServiceCollector { limits: limits.clone(), started }));
        service.register_collector(Box::new(StoreCollector(limits.clone())));
        service.register_collector(Box::new(ReadinessCollector(Arc::clone(readiness))));
        service.register_collector(Box::new(ListenersCollector(listeners.to_vec())));
        service.register_collector(Box::new(WaitingCollector(Arc::clone(waiting))));
        service.register_collector(Box::new(AccessCollector(Arc::clone(access))));
        if let Some(watch) = watch {
            service.register_collector(Box::new(ConfigCollector(watch)));
        }
        Self { answers, service }
    }

    /// Returns the library's counters.
    pub(super) fn answers(&self) -> &Metrics {
        &self.answers
    }

    /// Counts a limit under its own name, although no configuration has it.
    #[cfg(feature = "resp")]
    pub(super) fn count_limit(&self, limit: &Limit) {
        self.answers.add_limit(limit);
    }

    /// Adds more metrics of the service.
    pub(super) fn add(&mut self, collector: Box<dyn Collector>) {
        self.service.register_collector(collector);
    }

    pub(super) fn render(&self, format: MetricsFormat) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.answers.encode(&mut text)?;
        encode_registry(&mut text, &self.service)?;
        Ok(format.page(&text))
    }
}

/// Returns the features that the program was built with, sorted and separated by commas.
fn features() -> String {
    let features = [
        ("envoy", cfg!(feature = "envoy")),
        ("otlp", cfg!(feature = "otlp")),
        ("resp", cfg!(feature = "resp")),
    ];
    let built_in = features.into_iter().filter_map(|(name, is_there)| is_there.then_some(name));
    built_in.collect::<Vec<_>>().join(",")
}

/// Reads the numbers of the service as a whole at each scrape.
#[derive(Debug)]
struct ServiceCollector {
    limits: Registry,
    /// Unix time of the start, in seconds.
    started: u64,
}

impl Collector for ServiceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Unix time at which the service started";
        write(&mut encoder, "started_timestamp_seconds", help, &ConstGauge::new(self.started))?;
        let number = u64::try_from(self.limits.limits().len()).unwrap_or(u64::MAX);
        let help = "Limits of the configuration in force";
        write(&mut encoder, "limits", help, &ConstGauge::new(number))?;
        let overrides = u64::try_from(self.limits.overrides().known()).unwrap_or(u64::MAX);
        let help = "Overrides at run time that this process knows";
        write(&mut encoder, "overrides", help, &ConstGauge::new(overrides))?;
        let help = "Units in leases that this process holds now";
        let leased = ConstGauge::new(crate::fleet::leased_units(&self.limits));
        write(&mut encoder, "leased_units", help, &leased)?;
        let help = "Log events that were left out, because the same message was logged too often";
        let left_out = ConstCounter::new(crate::logging::left_out());
        write(&mut encoder, "log_events_left_out", help, &left_out)
    }
}

/// Reads the embedded store's numbers at each scrape.
#[derive(Debug)]
struct StoreCollector(Registry);

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let StoreStats { keys, max_keys, bytes, max_bytes, evicted_live, .. } =
            self.0.store().stats();
        for (name, help, number) in [
            ("store_keys", "Keys that the embedded store holds", keys),
            ("store_max_keys", "Maximum number of keys in the embedded store", max_keys),
            (
                "store_bytes",
                "Upper bound on the memory of the embedded store's keys, in bytes",
                bytes,
            ),
            ("store_max_bytes", "Maximum memory of the embedded store's keys, in bytes", max_bytes),
        ] {
            if let Some(number) = number {
                write(&mut encoder, name, help, &ConstGauge::new(number))?;
            }
        }
        let help = "Keys with consumption that the embedded store dropped because it was full";
        match evicted_live {
            Some(number) => {
                write(&mut encoder, "store_evictions", help, &ConstCounter::new(number))
            }
            None => Ok(()),
        }
    }
}

/// Reads the number of waiting requests at each scrape.
#[derive(Debug)]
struct WaitingCollector(Arc<Waiting>);

impl Collector for WaitingCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Requests that wait for units, or are about to";
        let taken = u64::try_from(self.0.taken()).unwrap_or(u64::MAX);
        write(&mut encoder, "waiting_requests", help, &ConstGauge::new(taken))
    }
}

/// Reads the reloads of the config file since the service started.
#[derive(Debug)]
struct ConfigCollector(Arc<Watch>);

impl Collector for ConfigCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = self.0.status();
        let help = "How often the config file was read again, by what came of it";
        let mut reloads =
            encoder.encode_descriptor("config_reloads", help, None, MetricType::Counter)?;
        for (outcome, count) in [
            ("applied", status.applied),
            ("unchanged", status.unchanged),
            ("failed", status.failed),
        ] {
            ConstCounter::new(count).encode(reloads.encode_family(&[("outcome", outcome)])?)?;
        }
        let is_stale = u64::from(status.last_error.is_some());
        let help = "1 while the config file can't be used and an earlier content of it is in force";
        write(&mut encoder, "config_stale", help, &ConstGauge::new(is_stale))
    }
}

fn write(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
