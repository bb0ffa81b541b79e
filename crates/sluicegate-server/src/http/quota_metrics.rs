//! The metrics of the shares that Envoys have.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use sluicegate_envoy::service::{Ignored, QuotaShares, Quotas};

use super::quota_rates::{MOST_LIMITS, per_second};

/// Reads the quotas at each scrape.
#[derive(Debug)]
pub(super) struct QuotaCollector(pub(super) Quotas);

impl Collector for QuotaCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let fleet = self.0.fleet();
        let counts = fleet.counts;
        for (name, help, number) in [
            ("quota_streams", "Open streams of Envoys with quotas", counts.streams),
            ("quota_buckets", "Buckets of these streams", counts.buckets),
        ] {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(number).encode(encoder)?;
        }
        let ignored = Ignored::ALL.iter().zip(counts.ignored);
        let ignored = ignored.map(|(why, number)| (why.as_str(), number));
        for (name, help, label, numbers) in [
            (
                "quota_messages",
                "Messages of Envoys with quotas, and the reports about buckets in them",
                "kind",
                vec![("message", counts.messages), ("report", counts.reports)],
            ),
            (
                "quota_answers",
                "Outcomes of reports: a new share, an equal one, or why there is none",
                "outcome",
                vec![
                    ("assigned", counts.assigned),
                    ("carried_on", counts.carried_on),
                    ("nothing_free", counts.refused),
                    ("store_failed", counts.failed),
                    ("abandoned", counts.abandoned),
                    ("late", counts.late),
                ],
            ),
            (
                "quota_ignored_reports",
                "Reports of buckets that were ignored, by the reason",
                "reason",
                ignored.collect(),
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (value, number) in numbers {
                let labels = [(label, value)];
                ConstCounter::new(number).encode(family.encode_family(&labels)?)?;
            }
        }
        let rows = || fleet.limits.iter().take(MOST_LIMITS);
        type Read = fn(QuotaShares) -> u64;
        let rates: [(&str, &str, Read); 3] = [
            ("quota_assigned_per_second", "Requests per second that Envoys may admit", |it| {
                it.assigned
            }),
            ("quota_needed_per_second", "Requests per second that Envoys need", |it| it.needed),
            ("quota_unassigned_per_second", "Requests per second that aren't booked", |it| {
                it.unassigned
            }),
        ];
        for (name, help, read) in rates {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in rows() {
                let labels = [("limit", row.limit.as_str())];
                let rate = ConstGauge::new(per_second(read(row.shares)));
                rate.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
