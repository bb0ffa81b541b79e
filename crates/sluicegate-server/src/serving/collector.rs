//! The metrics of listeners.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::connections::Connections;
use super::kind::Kind;
use super::tls::Tls;

/// The state of a listener.
#[derive(Clone, Debug)]
pub(crate) struct ListenerState {
    pub(crate) kind: Kind,
    pub(crate) connections: Arc<Connections>,
    pub(crate) tls: Option<Arc<Tls>>,
}

impl ListenerState {
    /// Returns the Unix time in seconds at which the first certificate of the chain in force expires; `None` without TLS.
    pub(crate) fn certificate_expires(&self) -> Option<i64> {
        Some(self.tls.as_ref()?.status().expires).filter(|expires| *expires > 0)
    }
}

/// Reads the state of all listeners at each scrape.
#[derive(Debug)]
pub(crate) struct ListenersCollector(pub(crate) Vec<ListenerState>);

impl Collector for ListenersCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Connections of clients that are open";
        let mut open = encoder.encode_descriptor("connections", help, None, MetricType::Gauge)?;
        for ListenerState { kind, connections, .. } in &self.0 {
            let labels = [("listener", kind.name())];
            ConstGauge::new(connections.open()).encode(open.encode_family(&labels)?)?;
        }
        let help = "Connections that were closed because there were too many, all in all or of one address";
        let counter = MetricType::Counter;
        let mut closed = encoder.encode_descriptor("connections_closed", help, None, counter)?;
        for ListenerState { kind, connections, .. } in &self.0 {
            for (reason, count) in ["full", "address"].into_iter().zip(connections.closed()) {
                let labels = [("listener", kind.name()), ("reason", reason)];
                ConstCounter::new(count).encode(closed.encode_family(&labels)?)?;
            }
        }
        let with_tls = self.0.iter().filter_map(|it| Some((it.kind, it.tls.as_ref()?.status())));
        let with_tls: Vec<_> = with_tls.collect();
        if with_tls.is_empty() {
            return Ok(());
        }
        let help = "How often the files of a listener's TLS changed, by what came of it";
        let mut reloads = encoder.encode_descriptor("tls_reloads", help, None, counter)?;
        for (kind, status) in &with_tls {
            for (outcome, count) in [("applied", status.applied), ("failed", status.failed)] {
                let labels = [("listener", kind.name()), ("outcome", outcome)];
                ConstCounter::new(count).encode(reloads.encode_family(&labels)?)?;
            }
        }
        let help =
            "1 while the files of a listener's TLS can't be used and earlier ones are in force";
        let mut stale = encoder.encode_descriptor("tls_stale", help, None, MetricType::Gauge)?;
        for (kind, status) in &with_tls {
            let labels = [("listener", kind.name())];
            ConstGauge::new(u64::from(status.is_stale)).encode(stale.encode_family(&labels)?)?;
        }
        let name = "tls_certificate_expires_timestamp_seconds";
        let help =
            "Unix time at which the first certificate of a listener's chain in force expires";
        let mut expires = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (kind, status) in &with_tls {
            let labels = [("listener", kind.name())];
            ConstGauge::new(status.expires).encode(expires.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
