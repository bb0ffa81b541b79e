//! The fleet: the shares of limits that Envoys have.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::error::{ApiError, json};
use super::guard;
use super::service::Service;
use crate::access::Call;

/// The maximum number of limits in an answer and in the metrics.
const MOST_LIMITS: usize = 1_000;

#[derive(Serialize)]
struct Fleet {
    quotas: QuotasEntry,
}

/// The quotas at this replica. Rates are in requests per second.
#[derive(Default, Serialize)]
struct QuotasEntry {
    streams: u64,
    buckets: u64,
    /// At most a thousand, in the order of their names.
    limits: Vec<LimitEntry>,
}

#[derive(Serialize)]
struct LimitEntry {
    limit: String,
    keys: u64,
    assigned_buckets: u64,
    rate: f64,
    assigned: f64,
    needed: f64,
    unassigned: f64,
}

/// `GET /v1/fleet`: 200 with the quotas of the limits that the caller may see.
pub(super) async fn fleet(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, _) = request.into_parts();
    let caller = guard::admit(&service.access, &head, Call::Inspect)?;
    let quotas = quotas(&service, |limit| caller.covers(limit));
    Ok(json(StatusCode::OK, &Fleet { quotas }))
}

/// Returns nothing: without the feature, no Envoy has a share.
#[cfg(not(feature = "envoy"))]
fn quotas(_: &Service, _: impl Fn(&str) -> bool) -> QuotasEntry {
    let _ = (MOST_LIMITS, |entry: LimitEntry| entry.limit);
    QuotasEntry::default()
}

#[cfg(feature = "envoy")]
pub(super) use of_envoys::QuotaCollector;
#[cfg(feature = "envoy")]
use of_envoys::quotas;

#[cfg(feature = "envoy")]
mod of_envoys {
    use std::fmt;

    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
    use prometheus_client::metrics::MetricType;
    use prometheus_client::metrics::counter::ConstCounter;
    use prometheus_client::metrics::gauge::ConstGauge;
    use sluicegate_envoy::service::{Ignored, LimitQuotas, Quotas};

    use super::{LimitEntry, MOST_LIMITS, QuotasEntry, Service};

    pub(crate) fn quotas(service: &Service, is_shown: impl Fn(&str) -> bool) -> QuotasEntry {
        let fleet = service.quotas.fleet();
        let shown = fleet.limits.into_iter().filter(|row| is_shown(&row.limit));
        QuotasEntry {
            streams: fleet.counts.streams,
            buckets: fleet.counts.buckets,
            limits: shown.take(MOST_LIMITS).map(LimitEntry::new).collect(),
        }
    }

    impl LimitEntry {
        fn new(row: LimitQuotas) -> Self {
            Self {
                keys: row.keys,
                assigned_buckets: row.assigned_buckets,
                rate: per_second(row.rate),
                assigned: per_second(row.assigned),
                needed: per_second(row.needed),
                unassigned: per_second(row.unassigned),
                limit: row.limit,
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a number to look at")]
    fn per_second(per_kilosecond: u64) -> f64 {
        per_kilosecond as f64 / 1_000.0
    }

    /// Reads the quotas at each scrape.
    #[derive(Debug)]
    pub(crate) struct QuotaCollector(pub(crate) Quotas);

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
                    "What Envoys with quotas sent: messages, and reports about buckets in them",
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
                let mut family =
                    encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                for (value, number) in numbers {
                    let labels = [(label, value)];
                    ConstCounter::new(number).encode(family.encode_family(&labels)?)?;
                }
            }
            let rows = || fleet.limits.iter().take(MOST_LIMITS);
            type Read = fn(&LimitQuotas) -> u64;
            let rates: [(&str, &str, Read); 3] = [
                ("quota_assigned_per_second", "Requests per second that Envoys may admit", |row| {
                    row.assigned
                }),
                ("quota_needed_per_second", "Requests per second that Envoys need", |row| {
                    row.needed
                }),
                ("quota_unassigned_per_second", "Requests per second that aren't booked", |row| {
                    row.unassigned
                }),
            ];
            for (name, help, read) in rates {
                let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                for row in rows() {
                    let labels = [("limit", row.limit.as_str())];
                    let rate = ConstGauge::new(per_second(read(row)));
                    rate.encode(family.encode_family(&labels)?)?;
                }
            }
            Ok(())
        }
    }
}
