//! Metrics of the fleet, as this process sees it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Fleet;

/// Counts the processes and their configurations at each scrape.
pub(crate) struct FleetCollector(pub(crate) Arc<Fleet>);

impl Collector for FleetCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let entries = self.0.entries();
        let configurations: HashSet<_> = entries.iter().map(|entry| &entry.config).collect();
        let processes = "Processes with the same store, as this one sees them";
        let different = "Different configurations of these processes, 1 unless they differ";
        for (name, help, number) in [
            ("fleet_processes", processes, entries.len()),
            ("fleet_configurations", different, configurations.len()),
        ] {
            let number = ConstGauge::new(u64::try_from(number).unwrap_or(u64::MAX));
            number.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for FleetCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetCollector").field(&self.0.id()).finish()
    }
}
